//! Turns events into observations and summaries. Knows nothing of SQL, HTTP or the queue.

pub mod parse;
