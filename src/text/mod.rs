//! Helpers for text: ages in words, numbers, one bounded line, plain text without control sequences.

pub mod age;
pub mod line;
pub mod number;
#[cfg(feature = "service")]
mod plain;

#[cfg(feature = "service")]
pub(crate) use plain::*;
