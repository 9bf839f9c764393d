//! Persistent memory for Claude Code, as a supervised operating-system service.
//!
//! Events flow in one direction:
//!
//! ```text
//! hook ──▶ store ◀── worker ──▶ compress ──▶ llm
//!             ▲          └────▶ search, context, learn
//!             └── cli, mcp (through the worker's socket, or read-only)
//! ```
//!
//! Dependencies point down this list only:
//!
//! - [`cli`]: the command line
//! - [`viewer`]: the memory in a browser: a loopback port while somebody looks
//! - [`mcp`]: the memory as tools for Claude Code and other agents
//! - [`client`]: the memory for programs outside the worker: its socket, or the database
//! - [`worker`]: the service: sockets, queue processor, HTTP API
//! - [`sync`]: one memory on all machines, through PostgreSQL
//! - [`backfill`]: histories that agents keep, replayed through live capture
//! - [`hook`]: the work of `claude-mem-hook`: read, strip, insert or spool, nudge, print
//! - [`capture`]: from a payload to the event that is stored
//! - [`repository`]: the state of a git repository
//! - [`context`]: the context that a new session gets from earlier ones
//! - [`manual_memories`]: saving and deleting memories by hand
//! - [`responses`]: search results and memories as responses of the HTTP API
//! - [`search`]: from a query to the matching memories
//! - [`learn`]: learnings from a turn for later sessions
//! - [`compress`]: from a turn to its note, summary and digest
//! - [`tools`]: tool events, parsed once
//! - [`llm`]: models, and the only network access
//! - [`anchors`]: the code that a memory is about, compared with a working tree
//! - [`symbols`]: functions and types of a file, and their changes by an edit
//! - [`store`]: the database, and all SQL
//! - [`spool`]: events that the database could not store yet
//! - [`nudge`]: wakes the worker
//! - [`project`]: the project of a directory
//! - [`privacy`]: private parts that are not stored, and secrets that are not sent
//! - [`files`]: atomic writes, free space and its reserve
//! - [`config`], [`paths`]: settings; paths, and network file systems
//! - [`value`]: sessions without memory, and their comparison with the others
//! - [`tokens`]: token counts of texts
//! - [`text`]: ages in words, bounded lines, text without control sequences
//! - [`hook_events`]: the Claude Code events that call our hook
//! - [`protocol`]: the JSON that Claude Code sends and accepts
//! - [`api`]: requests, responses and errors of the HTTP API
//! - [`clock`]: the current time, and the user's calendar day
//! - [`model`]: the domain types
//!
//! The hook links nothing asynchronous: it is built without the `service` feature.

#[cfg(feature = "service")]
pub mod anchors;
pub mod api;
#[cfg(feature = "service")]
pub mod backfill;
pub mod capture;
#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod client;
pub mod clock;
#[cfg(feature = "service")]
pub mod compress;
pub mod config;
pub mod context;
pub mod files;
pub mod hook;
#[cfg(feature = "service")]
pub mod hook_events;
#[cfg(feature = "service")]
pub mod learn;
#[cfg(feature = "service")]
pub mod llm;
#[cfg(feature = "service")]
pub mod manual_memories;
#[cfg(feature = "service")]
pub mod mcp;
pub mod model;
pub mod nudge;
pub mod paths;
pub mod privacy;
pub mod project;
pub mod protocol;
#[cfg(feature = "service")]
pub mod repository;
#[cfg(feature = "service")]
pub mod responses;
#[cfg(feature = "service")]
pub mod search;
pub mod spool;
pub mod store;
#[cfg(feature = "service")]
pub mod symbols;
#[cfg(feature = "service")]
pub mod sync;
pub mod text;
pub mod tokens;
#[cfg(feature = "service")]
pub mod tools;
pub mod value;
#[cfg(feature = "service")]
pub mod viewer;
#[cfg(feature = "service")]
pub mod worker;
