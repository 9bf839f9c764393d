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
//! - [`mcp`]: the same memory as tools for Claude and other agents
//! - [`client`]: asks the worker over its socket
//! - [`worker`]: the service: sockets, queue processor, HTTP API
//! - [`hook`]: what `claude-mem-hook` does: read, strip, insert or spool, nudge, print
//! - [`repository`]: what is going on in a repository, by asking git
//! - [`context`]: what a new session is told about the ones before it
//! - [`curate`]: from what somebody says to a memory, and what may be forgotten
//! - [`search`]: from a question to the memories that answer it
//! - [`learn`]: what a turn teaches that later sessions must know
//! - [`compress`]: from a turn's events to observations and summaries
//! - [`llm`]: models, and the only way out
//! - [`symbols`]: which functions and types a file has, and what an edit did to them
//! - [`store`]: the database, and all SQL
//! - [`spool`]: where events wait that the database would not take
//! - [`unfinished`]: files that are complete or not there
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
pub mod client;
#[cfg(feature = "service")]
pub mod compress;
pub mod config;
pub mod context;
#[cfg(feature = "service")]
pub mod curate;
pub mod hook;
#[cfg(feature = "service")]
pub mod learn;
#[cfg(feature = "service")]
pub mod llm;
#[cfg(feature = "service")]
pub mod mcp;
pub mod model;
pub mod paths;
pub mod privacy;
pub mod project;
#[cfg(feature = "service")]
pub mod repository;
#[cfg(feature = "service")]
pub mod search;
pub mod spool;
pub mod store;
#[cfg(feature = "service")]
pub mod symbols;
pub mod tokens;
pub mod unfinished;
pub mod wire;
#[cfg(feature = "service")]
pub mod wiring;
#[cfg(feature = "service")]
pub mod worker;
