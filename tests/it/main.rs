//! Drives the real parts from outside: the library as its users see it, and the real binaries.

mod endpoint;
mod llm_cli;
mod llm_http;
