//! Tests that run inside the machine, one after the other, each with a service of its own.

mod install;
mod life;
mod load;
mod sandbox;
mod trouble;
