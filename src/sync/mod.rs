//! One memory on all machines: each device appends to its own log on a PostgreSQL server, and reads
//! the logs of the others.
//!
//! ```text
//! rows ──collect──▶ outbox ──seal, push──▶ PostgreSQL ──pull, open──▶ apply ──▶ rows
//! ```
//!
//! [`engine`] runs one cycle; the service and `claude-mem sync now` call it. Everything that the
//! server can read is decided in `sealing`; the SQL for SQLite is in [`crate::store::sync`].
//! The design is described in docs/decisions/016-sync.md.

mod cycle;
pub mod engine;
mod error;
mod exchange;
pub mod invitation;
pub mod keys;
pub mod membership;
mod sealing;
pub mod server;
pub mod service;
pub mod team;

pub use engine::{CycleReport, Engine, Local, OwnConnection};
pub use error::SyncError;
pub use membership::Membership;
