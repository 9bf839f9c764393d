//! Properties that hold for any input, one module per reader. The targets in `fuzz_targets/` check them with libFuzzer, and
//! `tests/it/threats/fuzz_seeds.rs` with every seed and some mutations of it.

pub mod config;
pub mod hook;
pub mod http;
pub mod importing;
pub mod parse;
pub mod redact;
pub mod search;
pub mod spool;
