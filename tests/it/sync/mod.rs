//! Several machines and one PostgreSQL server, all of them real processes.

mod access;
mod convergence;
mod figures;
mod identity;
mod machine;
mod postgres;
mod service;
mod trouble;
mod vetoes;
