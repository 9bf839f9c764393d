//! From a turn's events to what is remembered of them. Knows nothing of SQL, HTTP or the queue.

pub mod functions;
pub mod local;
pub mod parse;
pub mod prompt;
pub mod redacted;
pub mod routine;
mod seen_files;
pub mod turn;
