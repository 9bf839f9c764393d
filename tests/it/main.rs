//! Drives the real binaries from outside, each test in a home of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::disallowed_methods)]

mod compression;
mod endpoint;
mod hook_bad_input;
mod hook_links;
mod hook_payloads;
mod hook_private;
mod hook_storm;
mod llm;
mod project_identity;
mod sandbox;
mod service;
