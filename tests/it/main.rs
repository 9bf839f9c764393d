//! Drives the real binaries from outside, each test in a home of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::disallowed_methods)]

mod commands;
mod compression;
mod context_moments;
mod damage;
mod damage_by_chance;
mod damage_within;
mod dice;
mod doctor;
mod endpoint;
mod faults;
mod function_map;
mod help;
mod hook_bad_input;
mod hook_links;
mod hook_payloads;
mod hook_private;
mod hook_storm;
mod install;
mod keeping;
mod launchd;
mod learnings;
mod llm;
mod mcp;
mod model;
mod nonsense;
mod plugin;
mod power_loss;
mod project_identity;
mod real_client;
mod recall;
mod sandbox;
mod service;
#[cfg(target_os = "linux")]
mod systemd;
mod threats;
mod worker_clients;
mod worker_context;
mod worker_life;
mod worker_queue;
mod worker_routes;
mod worker_storage;
mod worker_storm;
