//! Drives the real parts from outside: the library as its users see it, and the real binaries.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod endpoint;
mod llm;
