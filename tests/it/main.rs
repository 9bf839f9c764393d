//! Drives the real binaries from outside, each test in its own home directory. The folders follow `src/`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::disallowed_methods)]

mod cli;
mod client;
mod compress;
mod context;
mod harness;
mod hook;
mod install;
mod layers;
mod llm;
mod storage;
mod sync;
mod threats;
mod worker;
