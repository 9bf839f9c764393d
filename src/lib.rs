//! Persistent memory for Claude Code, as a supervised operating-system service.
//!
//! An event walks through the rooms in one direction, and never back:
//!
//! ```text
//! hook ──▶ store ◀── worker ──▶ compress ──▶ llm
//!             ▲          └────▶ search, context, learn
//!             └── cli, mcp (through the worker's socket, or read-only)
//! ```
//!
//! Dependencies point down this list only:
//!
//! - [`cli`]: the commands that people use
//! - [`worker`]: the service: sockets, queue processor, HTTP API
//! - [`hook`]: what `claude-mem-hook` does: read, strip, insert or spool, nudge, print
//! - [`context`]: what a new session is told about the ones before it
//! - [`search`]: from a question to the memories that answer it
//! - [`compress`]: from a turn's events to observations and summaries
//! - [`llm`]: models, and the only way out
//! - [`store`]: the database, and all SQL
//! - [`spool`]: where events wait that the database would not take
//! - [`project`]: which project a directory belongs to
//! - [`privacy`]: what must not be kept, and what must not leave
//! - [`config`], [`paths`]: settings and places
//! - [`tokens`]: how many tokens a text takes
//! - [`wiring`]: which of its events call our hook
//! - [`wire`]: what Claude Code sends and accepts
//! - [`model`]: what we talk about
//!
//! The hook links nothing asynchronous: it is built without the `service` feature.

#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod compress;
pub mod config;
pub mod context;
pub mod hook;
#[cfg(feature = "service")]
pub mod llm;
pub mod model;
pub mod paths;
pub mod privacy;
pub mod project;
#[cfg(feature = "service")]
pub mod search;
pub mod spool;
pub mod store;
pub mod tokens;
pub mod wire;
#[cfg(feature = "service")]
pub mod wiring;
#[cfg(feature = "service")]
pub mod worker;
