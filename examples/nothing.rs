//! The least that a process can do: the baseline of the hook's figures.

fn main() {}
