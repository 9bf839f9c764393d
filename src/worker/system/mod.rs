//! The worker and the operating system: sockets, lock, signals, service manager, memory.

pub mod activation;
#[cfg(target_os = "macos")]
pub(in crate::worker) mod launchd;
pub(in crate::worker) mod listeners;
pub mod lock;
pub(crate) mod ram;
pub(in crate::worker) mod signals;
pub(in crate::worker) mod supervise;
