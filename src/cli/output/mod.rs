//! Terminal output: wrapping, colours, progress, log lines.

pub mod log_line;
pub mod progress;
pub mod stdout;
pub mod style;
pub mod wrap;
