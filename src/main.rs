//! `claude-mem`: service and command line.

fn main() {}
