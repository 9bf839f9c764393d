//! Files and disks: atomic writes, free space and its reserve.

pub mod atomic;
pub mod disk;
