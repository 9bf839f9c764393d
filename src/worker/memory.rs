//! Memory that a piece of work needed and that nobody needs now, given back to the system.
#![allow(unsafe_code, reason = "neither malloc_trim nor madvise has a safe counterpart")]

use std::time::{Duration, Instant};

/// Quiet for this long, the worker gives back what it does not need.
const QUIET: Duration = Duration::from_secs(5);

/// When to give memory back: once after every piece of work, and after the start.
#[derive(Debug)]
pub struct Rest {
    worked: Option<Instant>,
}

impl Rest {
    /// The start was work, too.
    pub fn after_start() -> Self {
        Self { worked: Some(Instant::now()) }
    }

    /// There is work now.
    pub fn put_off(&mut self) {
        self.worked = Some(Instant::now());
    }

    /// Gives memory back if it is time. Otherwise tells how long until then, if there is anything to give.
    pub fn keep(&mut self) -> Option<Duration> {
        let rest_in = QUIET.saturating_sub(self.worked?.elapsed());
        if !rest_in.is_zero() {
            return Some(rest_in);
        }
        self.worked = None;
        tokio::task::spawn_blocking(give_back);
        None
    }
}

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

    /// Where a line of the list says that code of the program is. Never its data: that was changed after it was read.
    fn code_range(line: &str, program: &str) -> Option<(usize, usize)> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()? == "r-xp";
        let path = fields.nth(3)?.trim_start();
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
