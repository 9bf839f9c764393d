//! Limits of the database: retention, size, and deletion on request.

#[cfg(feature = "service")]
pub mod forget;
pub mod limits;
#[cfg(feature = "service")]
pub mod retention;
