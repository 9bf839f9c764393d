//! Work in the background: maintenance, backups, the spool, the WAL, the embedding model,
//! synchronisation.

pub mod daily_backup;
pub mod embedder;
pub mod history_follow;
pub mod maintenance;
pub mod similarity_threads;
pub mod spool_drain;
pub mod syncing;
pub mod truth;
pub mod vetoes;
pub mod wal_sync;
