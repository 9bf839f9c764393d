//! `install` and `uninstall`, the plugin, and the service under systemd and launchd.

pub mod command;
mod launchd;
mod plugin;
mod real_client;
#[cfg(target_os = "linux")]
mod systemd;
