//! Memory that a piece of work needed and that nobody needs now, given back to the system.
#![allow(unsafe_code, reason = "mallopt, malloc_trim and madvise have no safe counterparts")]

use std::time::{Duration, Instant};

/// Quiet for this long, the worker gives back what it does not need.
const QUIET: Duration = Duration::from_secs(5);

/// Without a quiet moment it does so this often: steady work must not keep what its largest piece took.
const WITHOUT_QUIET: Duration = Duration::from_secs(10);

/// When to give memory back: once after every piece of work, after the start, and now and then while work does not end.
#[derive(Debug)]
pub struct Rest {
    worked: Option<Instant>,
    /// When memory was given back last, or work began after that.
    since: Instant,
}

impl Rest {
    /// The start was work, too.
    pub fn after_start() -> Self {
        Self { worked: Some(Instant::now()), since: Instant::now() }
    }

    /// There is work now.
    pub fn put_off(&mut self) {
        self.work_at(Instant::now());
    }

    /// Gives memory back if it is time. Tells how long until it may be time again, if there is anything to give.
    pub fn keep(&mut self) -> Option<Duration> {
        if self.is_due(Instant::now()) {
            tokio::task::spawn_blocking(give_back);
        }
        Some(QUIET.saturating_sub(self.worked?.elapsed()))
    }

    /// Whether the last work is over for a while.
    pub fn is_quiet(&self) -> bool {
        self.worked.is_none_or(|worked| worked.elapsed() >= QUIET)
    }

    fn work_at(&mut self, now: Instant) {
        if self.worked.replace(now).is_none() {
            self.since = now;
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let Some(worked) = self.worked else { return false };
        let is_quiet = now.duration_since(worked) >= QUIET;
        if is_quiet {
            self.worked = None;
        } else if now.duration_since(self.since) < WITHOUT_QUIET {
            return false;
        }
        self.since = now;
        true
    }
}

/// Makes the allocator share its memory among threads. To be called before the first of them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_arenas() {
    use std::ffi::c_int;

    /// From malloc.h.
    const M_ARENA_MAX: c_int = -8;
    /// Every thread would have its own, and each keeps what its largest piece of work took. One alone is fought for.
    const ARENAS: c_int = 2;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: it takes no pointer, and a value that it does not like changes nothing.
    unsafe { mallopt(M_ARENA_MAX, ARENAS) };
}

/// Other allocators than glibc's have no such arenas.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_arenas() {}

/// Gives back what the allocator keeps, and the pages of our program that nobody runs now: most of them were read once, to
/// start or for a rare piece of work. What is needed again comes from the system's cache.
pub fn give_back() {
    trim();
    #[cfg(target_os = "linux")]
    if let Err(error) = code::give_back() {
        tracing::debug!(%error, "the program's own pages stay");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: it takes no pointer, and may be called at any time from any thread.
    unsafe { malloc_trim(0) };
}

/// Other allocators than glibc's do so on their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_after_work_and_now_and_then_in_steady_work() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rest = Rest { worked: Some(start), since: start };
        assert!(!rest.is_due(at(4)));
        assert!(rest.is_due(at(5)), "the start is over");
        assert!(!rest.is_due(at(500)), "there is nothing to give");
        let mut given = Vec::new();
        for second in 500..525 {
            rest.work_at(at(second));
            if rest.is_due(at(second)) {
                given.push(second);
            }
        }
        assert_eq!(given, [510, 520], "not at once after a long pause");
        assert!(!rest.is_due(at(528)));
        assert!(rest.is_due(at(529)), "the work is over");
        assert!(!rest.is_due(at(600)));
    }
}

#[cfg(target_os = "linux")]
mod code {
    use std::io;
    use std::ptr::NonNull;

    use nix::sys::mman::{MmapAdvise, madvise};

    pub fn give_back() -> io::Result<()> {
        let program = std::fs::read_link("/proc/self/exe")?;
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        for (start, length) in maps.lines().filter_map(|line| code_range(line, &program.to_string_lossy())) {
            let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut(start)) else { continue };
            // SAFETY: the range is a private mapping of our own program that nobody can write to, so every page of it is the
            // file's, and comes back as it was when it is touched.
            unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED)? };
        }
        Ok(())
    }

    /// Where a line of the list says that code of the program is, or what the code only reads, which the file begins
    /// with. Never its data: that was changed after it was read, also where it is read-only since.
    fn code_range(line: &str, program: &str) -> Option<(usize, usize)> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (access, offset) = (fields.next()?, fields.next()?);
        let is_code = access == "r-xp" || (access == "r--p" && usize::from_str_radix(offset, 16) == Ok(0));
        let path = fields.nth(2)?.trim_start();
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (is_code && path == program).then_some((start, end.checked_sub(start)?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_code_of_the_program_is_given_back() {
            let program = "/opt/with space/claude-mem";
            let range = |line: &str| code_range(line, program);
            assert_eq!(
                range("5600-5800 r-xp 00001000 fd:00 131      /opt/with space/claude-mem"),
                Some((0x5600, 0x200))
            );
            assert_eq!(
                range("5400-5600 r--p 00000000 fd:00 131 /opt/with space/claude-mem"),
                Some((0x5400, 0x200)),
                "its constants"
            );
            assert_eq!(
                range("5800-5900 r--p 00003000 fd:00 131 /opt/with space/claude-mem"),
                None,
                "changed when it was read"
            );
            assert_eq!(range("5900-6000 rw-p 00004000 fd:00 131 /opt/with space/claude-mem"), None);
            assert_eq!(range("7000-8000 r-xp 00000000 fd:00 132 /usr/lib/libc.so.6"), None);
            assert_eq!(range("7000-8000 r-xp 00000000 00:00 0"), None);
            assert_eq!(range("nonsense"), None);
        }

        #[test]
        fn what_runs_goes_on_running() {
            super::super::give_back();
            assert_eq!(std::hint::black_box(6_i32).pow(2), 36);
        }
    }
}
