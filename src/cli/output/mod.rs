//! Terminal output: wrapping, tables, colours, progress, log lines, and the pager.

pub mod fields;
pub mod log_line;
mod pager;
pub mod progress;
pub mod stdout;
pub mod style;
pub mod table;
pub mod wrap;
