//! Several machines and one PostgreSQL server, all of them real processes.

mod access;
#[path = "../torture/clock.rs"]
#[allow(dead_code, reason = "shared with the torture tests")]
mod clock;
mod convergence;
mod identity;
mod machine;
mod postgres;
mod service;
mod trouble;
