//! Returns unused memory to the operating system.
#![allow(unsafe_code, reason = "mallopt, malloc_trim and madvise have no safe counterparts")]

use std::time::{Duration, Instant};

/// Idle time after which memory is returned.
const QUIET: Duration = Duration::from_secs(5);

/// Interval without idle time: continuous work must not keep the memory of its largest job.
const WITHOUT_QUIET: Duration = Duration::from_secs(10);

/// Schedules the return of memory: once after the start and after each burst of work, and regularly
/// during continuous work.
#[derive(Debug)]
pub struct TrimTimer {
    worked: Option<Instant>,
    /// The last time memory was returned, or work began after that.
    since: Instant,
}

impl TrimTimer {
    /// Starting the worker counts as work.
    pub fn after_start() -> Self {
        Self { worked: Some(Instant::now()), since: Instant::now() }
    }

    /// Records that there is work now.
    pub fn reset(&mut self) {
        self.reset_at(Instant::now());
    }

    /// True if memory is to be returned now; asking again then gives false.
    pub fn take_due(&mut self) -> bool {
        self.is_due(Instant::now())
    }

    /// Returns the time until memory may be due, if there is any to return.
    pub fn due_in(&self) -> Option<Duration> {
        Some(QUIET.saturating_sub(self.worked?.elapsed()))
    }

    /// True if the last work ended a while ago.
    pub fn is_quiet(&self) -> bool {
        self.worked.is_none_or(|worked| worked.elapsed() >= QUIET)
    }

    fn reset_at(&mut self, now: Instant) {
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

/// Makes threads share the allocator's arenas. Call it before the first thread starts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_arenas() {
    use std::ffi::c_int;

    /// From malloc.h.
    const M_ARENA_MAX: c_int = -8;
    /// Number of arenas. With one per thread, each would keep the memory of its largest job; with two, a third of
    /// the worker's time under load went into waiting for their locks.
    const ARENAS: c_int = 4;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // SAFETY: it takes no pointer, and an invalid value has no effect.
    unsafe { mallopt(M_ARENA_MAX, ARENAS) };
}

/// Only glibc has such arenas.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_arenas() {}

/// Returns free memory of the allocator, and code pages of our program that are not running: most
/// were read once, for the start or a rare job. Pages that are needed again come from the page
/// cache.
pub fn release_memory() {
    trim();
    #[cfg(target_os = "linux")]
    if let Err(error) = code::release_memory() {
        tracing::debug!(%error, "cannot return the program's own pages");
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

/// Only glibc needs this; other allocators return memory on their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_after_work_and_during_steady_work() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timer = TrimTimer { worked: Some(start), since: start };
        assert!(!timer.is_due(at(4)));
        assert!(timer.is_due(at(5)), "after the start");
        assert!(!timer.is_due(at(500)), "nothing to return");
        let mut given = Vec::new();
        for second in 500..525 {
            timer.reset_at(at(second));
            if timer.is_due(at(second)) {
                given.push(second);
            }
        }
        assert_eq!(given, [510, 520], "not immediately after a long pause");
        assert!(!timer.is_due(at(528)));
        assert!(timer.is_due(at(529)), "after the work");
        assert!(!timer.is_due(at(600)));
    }
}

#[cfg(target_os = "linux")]
mod code {
    use std::io;
    use std::ptr::NonNull;

    use nix::sys::mman::{MmapAdvise, madvise};

    pub fn release_memory() -> io::Result<()> {
        let program = std::fs::read_link("/proc/self/exe")?;
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        for (start, length) in maps.lines().filter_map(|line| code_range(line, &program.to_string_lossy())) {
            let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut(start)) else { continue };
            // SAFETY: the range is a private, non-writable mapping of our own program, so every
            // page is identical to the file, and is read from it again when it is touched.
            unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED)? };
        }
        Ok(())
    }

    /// Parses a line of the memory map: returns the range if it is code of the program or the
    /// read-only part that the file begins with. Never data: it was relocated after loading, even
    /// if it is read-only now.
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
        fn only_code_of_the_program_is_returned() {
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
                "relocated after loading"
            );
            assert_eq!(range("5900-6000 rw-p 00004000 fd:00 131 /opt/with space/claude-mem"), None);
            assert_eq!(range("7000-8000 r-xp 00000000 fd:00 132 /usr/lib/libc.so.6"), None);
            assert_eq!(range("7000-8000 r-xp 00000000 00:00 0"), None);
            assert_eq!(range("nonsense"), None);
        }

        #[test]
        fn returned_code_still_runs() {
            super::super::release_memory();
            assert_eq!(std::hint::black_box(6_i32).pow(2), 36);
        }
    }
}
