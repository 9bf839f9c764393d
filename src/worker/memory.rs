//! Memory that the allocator keeps after a large piece of work, given back to the system.
#![allow(unsafe_code, reason = "malloc_trim has no safe counterpart")]

/// Gives back what is free. Other allocators than glibc's do so on their own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: it takes no pointer, and may be called at any time from any thread.
    unsafe { malloc_trim(0) };
}

/// Gives back what is free. Other allocators than glibc's do so on their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
