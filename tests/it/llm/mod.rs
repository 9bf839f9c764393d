//! Model providers, seen from outside.

mod budget;
pub mod child_processes;
mod choosing;
mod cli;
mod http;
mod session;
