//! The commands that people use, one file each. The only place that prints.
#![allow(clippy::print_stderr, reason = "a command line speaks")]

/// Prints a line. In place of `println!`, which panics where nobody listens.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::cli::out::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// The same without an end of the line.
macro_rules! say_as_is {
    ($($text:tt)*) => {
        $crate::cli::out::print(format_args!($($text)*))
    };
}

mod backup;
mod child;
mod client;
mod completions;
mod config;
mod context;
mod doctor;
mod export;
mod forget;
mod import;
mod install;
pub mod launch;
mod learn;
mod lines;
mod log_file;
mod log_line;
mod logs;
mod mcp;
mod model;
mod out;
mod progress;
mod queue;
mod recall;
mod reindex;
mod restore;
mod search;
mod service;
mod sessions;
mod show;
mod start;
mod stats;
mod status;
mod style;
mod timeline;
mod worker;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::config::Environment;
use crate::paths::Home;
use crate::store::StoreError;

/// Persistent memory for Claude Code.
#[derive(Debug, Parser)]
#[command(name = "claude-mem", version, about, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set claude-mem up: hooks in Claude Code's settings, and the service
    Install(install::Arguments),
    /// Take back what `install` did; what was remembered stays
    Uninstall(install::uninstall::Arguments),
    /// Run the service in the foreground
    Worker(worker::Arguments),
    /// Start the service in the background, unless it runs already
    Start(start::StartArguments),
    /// Stop the service, until it is started again
    Stop(start::StopArguments),
    /// Stop the service and start it again
    Restart(start::RestartArguments),
    /// Show how the service is
    Status(status::Arguments),
    /// Check that everything works, and tell how to repair what does not
    Doctor(doctor::Arguments),
    /// Show what the service did
    Logs(logs::Arguments),
    /// List the sessions that are remembered
    Sessions(sessions::Arguments),
    /// Find memories, in any words
    Search(search::Arguments),
    /// Show what happened around a memory
    Timeline(timeline::Arguments),
    /// Show memories in full
    Show(show::Arguments),
    /// Show what a session that starts here is told
    Context(context::Arguments),
    /// Make the search index anew
    Reindex(reindex::Arguments),
    /// Tell every later session something, or have it forgotten
    Learn(learn::Arguments),
    /// The model that lets search find by meaning
    Model(model::Arguments),
    /// Serve the memory as tools to Claude Code and other agents (MCP, on stdin and stdout)
    Mcp(mcp::Arguments),
    /// Look at the queue, and repair it
    Queue(queue::Arguments),
    /// Forget memories, for good
    Forget(forget::Arguments),
    /// Show what the memory cost, and what it saved
    Stats(stats::Arguments),
    /// Copy the database, while it is in use, and check the copy
    Backup(backup::Arguments),
    /// Put a backup in the place of the database
    Restore(restore::Arguments),
    /// Write everything that is remembered as lines of JSON
    Export(export::Arguments),
    /// Take in an export, or another claude-mem's database
    Import(import::Arguments),
    /// Show, check and find the settings
    Config(config::Arguments),
    /// Print what a shell needs to complete our commands
    Completions(completions::Arguments),
    /// Write the manual's pages into a directory
    #[command(hide = true)]
    Man(completions::ManArguments),
}

/// Runs the command. Errors are printed once, as a sentence to act on.
pub fn run(arguments: &Arguments, environment: Environment) -> ExitCode {
    let ended = dispatch(arguments, environment).and_then(|code| {
        out::finish().context("the answer cannot be written")?;
        Ok(code)
    });
    ended.unwrap_or_else(|error| {
        eprintln!("claude-mem: {}", told(&error));
        if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// An argument that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// An error and its causes, each said once, and what to do about it where one thing helps whatever was wanted.
fn told(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    if store.is_some_and(StoreError::is_damage) {
        told += "; `claude-mem restart` recovers it from what can be read and from the newest backup";
    }
    told
}

fn dispatch(arguments: &Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    let home = Home::locate(environment.mem_home.clone(), environment.user_home.clone())?;
    match &arguments.command {
        Command::Install(arguments) => install::run(&home, &environment, arguments),
        Command::Uninstall(arguments) => install::uninstall::run(&home, &environment, arguments),
        Command::Worker(arguments) => {
            worker::run(home, environment, arguments).context("the worker cannot run")
        }
        Command::Start(_) => start::start(&home, &environment),
        Command::Stop(_) => start::stop(&home, &environment),
        Command::Restart(_) => start::restart(&home, &environment),
        Command::Status(arguments) => status::run(&home, &environment, arguments),
        Command::Doctor(arguments) => doctor::run(&home, &environment, arguments),
        Command::Logs(arguments) => logs::run(&home, &environment, arguments),
        Command::Sessions(arguments) => sessions::run(&home, arguments),
        Command::Search(arguments) => search::run(&home, &environment, arguments),
        Command::Timeline(arguments) => timeline::run(&home, &environment, arguments),
        Command::Show(arguments) => show::run(&home, &environment, arguments),
        Command::Context(arguments) => context::run(&home, &environment, arguments),
        Command::Reindex(_) => reindex::run(&home),
        Command::Learn(arguments) => learn::run(&home, &environment, arguments),
        Command::Model(arguments) => model::run(&home, &environment, arguments),
        Command::Mcp(arguments) => mcp::run(&home, &environment, arguments),
        Command::Queue(arguments) => queue::run(&home, &environment, arguments),
        Command::Forget(arguments) => forget::run(&home, &environment, arguments),
        Command::Stats(arguments) => stats::run(&home, &environment, arguments),
        Command::Backup(arguments) => backup::run(&home, arguments),
        Command::Restore(arguments) => restore::run(&home, &environment, arguments),
        Command::Export(arguments) => export::run(&home, arguments),
        Command::Import(arguments) => import::run(&home, arguments),
        Command::Config(arguments) => config::run(&home, &environment, arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => completions::man(arguments),
    }
}
