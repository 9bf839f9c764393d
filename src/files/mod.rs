//! Files and disks: atomic writes, free space and its reserve, network file systems.

pub mod atomic;
pub mod disk;
pub mod file_system;
