//! The shim: every payload is stored or counted, and the user notices nothing.

mod bad_input;
mod links;
mod notices;
mod payloads;
mod private;
mod storm;
