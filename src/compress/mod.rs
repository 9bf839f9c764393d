//! Turns a turn into memory: notes by rules or by a model. Independent of SQL, HTTP and the queue.

pub mod digest;
pub mod functions;
pub mod note;
pub mod parse;
pub mod prompt;
pub mod redacted;
pub mod routine;
mod seen_files;
pub mod traces;
pub mod turn;
