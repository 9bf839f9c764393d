//! The commands that people use, one file each. The only place that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks")]

mod client;
mod config;
mod queue;
mod recall;
mod reindex;
mod search;
mod show;
mod start;
mod style;
mod timeline;
mod worker;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::config::Environment;
use crate::paths::Home;

/// Persistent memory for Claude Code.
#[derive(Debug, Parser)]
#[command(name = "claude-mem", version, about, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service in the foreground
    Worker(worker::Arguments),
    /// Start the service in the background, unless it runs already
    Start(start::StartArguments),
    /// Stop the service
    Stop(start::StopArguments),
    /// Show how the service is
    Status(start::StatusArguments),
    /// Find memories, in any words
    Search(search::Arguments),
    /// Show what happened around a memory
    Timeline(timeline::Arguments),
    /// Show memories in full
    Show(show::Arguments),
    /// Make the search index anew
    Reindex(reindex::Arguments),
    /// Look at the queue, and repair it
    Queue(queue::Arguments),
    /// Show, check and find the settings
    Config(config::Arguments),
}

/// Runs the command. Errors are printed once, as a sentence to act on.
pub fn run(arguments: &Arguments, environment: Environment) -> ExitCode {
    match dispatch(arguments, environment) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("claude-mem: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    let home = Home::locate(environment.mem_home.clone(), environment.user_home.clone())?;
    match &arguments.command {
        Command::Worker(_) => worker::run(home, environment).context("the worker cannot run"),
        Command::Start(_) => start::start(&home),
        Command::Stop(_) => start::stop(&home),
        Command::Status(arguments) => start::status(&home, arguments),
        Command::Search(arguments) => search::run(&home, &environment, arguments),
        Command::Timeline(arguments) => timeline::run(&home, &environment, arguments),
        Command::Show(arguments) => show::run(&home, &environment, arguments),
        Command::Reindex(_) => reindex::run(&home),
        Command::Queue(arguments) => queue::run(&home, &environment, arguments),
        Command::Config(arguments) => config::run(&home, &environment, arguments),
    }
}
