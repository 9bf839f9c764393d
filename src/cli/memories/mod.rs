//! Commands about memories: search and show them, manage learnings, forget, count.

pub mod context;
pub mod correct;
pub mod forget;
pub mod learn;
pub mod review;
pub mod search;
pub mod sessions;
pub mod show;
pub mod stats;
pub mod timeline;
pub mod today;
pub mod value;
