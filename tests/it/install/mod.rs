//! `install` and `uninstall`, the plugin, and the service under systemd and launchd.

pub mod command;
mod launchd;
mod plugin;
mod real_agents;
mod real_client;
mod script;
#[cfg(target_os = "linux")]
mod systemd;
