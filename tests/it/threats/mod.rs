//! Attacks against the promises of docs/threat-model.md.

mod environment;
mod files;
mod flood;
mod fuzz_seeds;
mod repository;
mod secrets;
