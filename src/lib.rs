//! Persistent memory for Claude Code.

#[cfg(feature = "service")]
pub mod compress;
pub mod config;
pub mod model;
pub mod paths;
pub mod privacy;
