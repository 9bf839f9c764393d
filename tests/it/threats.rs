//! What docs/threat-model.md promises, tried from the other side.

#[path = "threats/environment.rs"]
mod environment;
#[path = "threats/files.rs"]
mod files;
#[path = "threats/flood.rs"]
mod flood;
#[path = "threats/repository.rs"]
mod repository;
