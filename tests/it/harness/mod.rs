//! The parts that tests share: a sandbox with the real programs, a fake endpoint, clients, a seeded random generator.

pub mod claude;
pub mod clock;
pub mod endpoint;
pub mod faults;
pub mod mcp_client;
pub mod rng;
pub mod sandbox;
pub mod wait;
pub mod worker;
