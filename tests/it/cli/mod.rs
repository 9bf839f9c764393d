//! The command line: help texts, output, `doctor`, `backfill`.

mod backfill;
mod commands;
mod doctor;
mod help;
mod shell;
