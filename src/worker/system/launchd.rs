//! Sockets from launchd, which passes them only through a C function: one of two modules with
//! unsafe code.
#![allow(unsafe_code, reason = "launch_activate_socket has no safe counterpart")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};

unsafe extern "C" {
    fn launch_activate_socket(name: *const c_char, fds: *mut *mut c_int, count: *mut usize) -> c_int;
    fn free(pointer: *mut c_void);
}

/// Returns the sockets that the property list names `api` and `nudge`; `None` if launchd did not
/// start us.
pub fn sockets() -> Option<(UnixListener, Option<UnixDatagram>)> {
    let api = socket(c"api").map(UnixListener::from)?;
    Some((api, socket(c"nudge").map(UnixDatagram::from)))
}

fn socket(name: &CStr) -> Option<OwnedFd> {
    let mut fds: *mut c_int = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: the name is a C string, and both pointers are valid for writes during the call.
    let outcome = unsafe { launch_activate_socket(name.as_ptr(), &raw mut fds, &raw mut count) };
    if outcome != 0 || fds.is_null() {
        return None;
    }
    // SAFETY: on success `fds` is an array of `count` descriptors, which are ours from now on; each is taken once.
    let taken = unsafe { (0..count).map(|index| OwnedFd::from_raw_fd(*fds.add(index))).collect::<Vec<_>>() };
    // SAFETY: launchd made the array with malloc and left it to us.
    unsafe { free(fds.cast()) };
    taken.into_iter().next().inspect(|fd| {
        let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    })
}
