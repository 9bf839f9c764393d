//! A process that does nothing: the baseline of the hook's figures.

fn main() {}
