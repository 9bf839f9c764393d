//! Attacks against the promises of docs/threat-model.md.

#[path = "threats/environment.rs"]
mod environment;
#[path = "threats/files.rs"]
mod files;
#[path = "threats/flood.rs"]
mod flood;
#[path = "threats/repository.rs"]
mod repository;
