//! What several targets need.

pub mod importing;
