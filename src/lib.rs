//! Persistent memory for Claude Code.

pub mod config;
#[cfg(feature = "service")]
pub mod llm;
pub mod model;
pub mod paths;
pub mod privacy;
