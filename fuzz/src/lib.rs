//! What must hold whatever comes in, one module for each reader. The targets in `fuzz_targets/` try it with libFuzzer, and
//! `tests/it/nonsense.rs` with every seed and some changes to it.

pub mod config;
pub mod hook;
pub mod http;
pub mod importing;
pub mod parse;
pub mod redact;
pub mod search;
pub mod spool;
