//! `make bench`: the figures, each with a baseline of the same run, because machines are noisy.
//!
//! The binaries under test come from the environment, which the Makefile sets: `CLAUDE_MEM_BENCH_BIN` names the directory
//! with `claude-mem`, `claude-mem-hook` and `nothing`; `CLAUDE_MEM_BENCH_RESULTS` the file that keeps the newest figures. An
//! argument runs only the groups whose name contains it.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod compress;
mod context;
#[path = "../../tests/it/harness/endpoint.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod endpoint;
mod growth;
mod hook;
mod instructions;
mod mcp;
mod meaning;
mod search;
mod table;
mod viewer;
mod worker;

use std::path::PathBuf;

fn main() {
    let binaries =
        PathBuf::from(std::env::var_os("CLAUDE_MEM_BENCH_BIN").expect("run this with `make bench`"));
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted =
        |group: &str| wanted.is_empty() || wanted.iter().any(|word| group.contains(word.as_str()));
    let mut table = table::Table::default();
    if is_wanted("hook") {
        hook::run(&binaries, &mut table);
    }
    if is_wanted("compress") {
        compress::run(&binaries, &mut table);
    }
    if is_wanted("worker") {
        worker::run(&binaries, &mut table);
    }
    if is_wanted("search") {
        search::run(&binaries, &mut table);
    }
    if is_wanted("context") {
        context::run(&binaries, &mut table);
    }
    if is_wanted("viewer") {
        viewer::run(&binaries, &mut table);
    }
    if is_wanted("mcp") {
        mcp::run(&binaries, &mut table);
    }
    if is_wanted("growth") {
        growth::run(&binaries, &mut table);
    }
    if is_wanted("instructions") {
        instructions::run(&binaries, &mut table);
    }
    table.print();
    if let Some(file) = std::env::var_os("CLAUDE_MEM_BENCH_RESULTS") {
        table.keep(&PathBuf::from(file));
    }
}
