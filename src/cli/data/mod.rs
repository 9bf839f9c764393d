//! Commands about the data: backup, restore, export, import, histories, index and model.

pub mod backfill;
pub mod backup;
pub mod export;
pub mod import;
mod markdown;
pub mod model;
pub mod reindex;
pub mod restore;
