//! Persistent memory for Claude Code.

pub mod config;
pub mod model;
pub mod paths;
pub mod privacy;
pub mod tokens;
