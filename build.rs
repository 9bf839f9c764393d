//! Makes the default settings quick to load: the commented TOML is for people, the same as JSON is for the hook.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script is configured by the environment and speaks to cargo"
)]

use std::path::Path;

const DEFAULTS: &str = "config/claude-mem.toml";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={DEFAULTS}");
    let defaults: toml::Table = toml::from_str(&std::fs::read_to_string(DEFAULTS)?)?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("defaults.json"), serde_json::to_string(&defaults)?)?;
    Ok(())
}
