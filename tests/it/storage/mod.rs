//! The database file: damage and recovery, a full disk, power loss, backup and export.

mod backup_export;
pub mod damage;
mod disk_space;
mod logical_corruption;
mod power_loss;
mod random_damage;
