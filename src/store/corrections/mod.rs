//! Corrections by the user: edits that keep the earlier version, pins, merged duplicates, and [`vetoes`].

#[cfg(feature = "service")]
mod amend;
pub mod vetoes;

#[cfg(feature = "service")]
pub use amend::{Amendment, edit, merge, pin, revert, supersede, versions};
