//! Helpers for text: ages in words, one bounded line, plain text without control sequences.

pub mod age;
pub mod line;
#[cfg(feature = "service")]
mod plain;

#[cfg(feature = "service")]
pub(crate) use plain::*;
