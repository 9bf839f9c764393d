//! Tests that run inside the machine, one after the other, each with its own service.

mod install;
mod life;
mod load;
mod sandbox;
mod trouble;
