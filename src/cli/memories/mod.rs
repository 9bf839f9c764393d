//! Commands about memories: search and show them, manage learnings, forget, count.

pub mod context;
pub mod forget;
pub mod learn;
pub mod search;
pub mod sessions;
pub mod show;
pub mod stats;
pub mod timeline;
pub mod today;
