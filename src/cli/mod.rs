//! The command-line interface, one file per command, by topic. Only this module prints.
#![allow(clippy::print_stderr, reason = "the command line prints errors to stderr")]

/// Prints a line. Replaces `println!`, which panics on a closed pipe.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::cli::output::stdout::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// The same without a newline.
macro_rules! out {
    ($($text:tt)*) => {
        $crate::cli::output::stdout::print(format_args!($($text)*))
    };
}

mod arguments;
mod client;
mod completions;
mod config;
mod data;
mod doctor;
mod install;
mod memories;
mod open;
mod output;
mod run_command;
mod service;
mod sync;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::config::Environment;
use crate::paths::Home;
use crate::store::StoreError;

pub use service::detached_worker::dispatch as dispatch_detached_worker;

/// Persistent memory for Claude Code.
#[derive(Debug, Parser)]
#[command(name = "claude-mem", version, about, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Install the hooks in Claude Code's settings, and the service
    Install(install::Arguments),
    /// Undo `install`; memories are kept
    Uninstall(install::uninstall::Arguments),
    /// Install the newest version from the checkout or the release that this one came from
    Update(install::update::Arguments),
    /// Run the service in the foreground
    Worker(service::worker::Arguments),
    /// Start the service in the background, unless it is running
    Start(service::start::StartArguments),
    /// Stop the service until it is started again
    Stop(service::start::StopArguments),
    /// Restart the service
    Restart(service::start::RestartArguments),
    /// Show service status
    Status(service::status::Arguments),
    /// Print one line for Claude Code's status line
    Statusline(service::statusline::Arguments),
    /// Check that everything works, and print how to fix what does not
    Doctor(doctor::Arguments),
    /// Show the service's log
    Logs(service::logs::Arguments),
    /// List remembered sessions
    Sessions(memories::sessions::Arguments),
    /// Search memories
    Search(memories::search::Arguments),
    /// Show the memories around a memory
    Timeline(memories::timeline::Arguments),
    /// Show what was done today, by project
    Today(memories::today::Arguments),
    /// Show memories or sessions in full
    Show(memories::show::Arguments),
    /// Show the context that a session started here would get
    Context(memories::context::Arguments),
    /// Rebuild the search index
    Reindex(data::reindex::Arguments),
    /// Add, list or forget learnings: facts that every later session gets
    Learn(memories::learn::Arguments),
    /// Manage the embedding model for search by meaning
    Model(data::model::Arguments),
    /// Serve the memory to Claude Code and other agents (MCP on stdin and stdout)
    Mcp(service::mcp::Arguments),
    /// Open the memory in a browser
    Open(open::Arguments),
    /// Send one request to the service and print the JSON response
    #[command(hide = true)]
    Call(service::call::Arguments),
    /// Inspect the queue, retry failed events, delete finished ones
    Queue(service::queue::Arguments),
    /// Delete memories permanently
    Forget(memories::forget::Arguments),
    /// Pin memories, so that they are in every context of their project
    Pin(memories::correct::PinArguments),
    /// Veto statements: they are never shown or stored again
    Veto(memories::correct::VetoArguments),
    /// Mark a memory as replaced by a later one
    Supersede(memories::correct::SupersedeArguments),
    /// Merge memories that say the same into one
    Merge(memories::correct::MergeArguments),
    /// Change the text of a memory; earlier versions are kept
    Edit(memories::correct::EditArguments),
    /// Walk through the memories whose code has changed: keep, edit or forget each
    Review(memories::review::Arguments),
    /// Show how memory was used, and its effect on sessions
    Value(memories::value::Arguments),
    /// Show cost and savings
    Stats(memories::stats::Arguments),
    /// Back up the database while it is in use, and verify the copy
    Backup(data::backup::Arguments),
    /// Replace the database with a backup
    Restore(data::restore::Arguments),
    /// Export all memories as JSON lines, or as Markdown
    Export(data::export::Arguments),
    /// Import an export, a backup, or another claude-mem's database
    Import(data::import::Arguments),
    /// Read the histories that agents keep on this machine into the memory
    Backfill(data::backfill::Arguments),
    /// Share one memory between several machines, through a PostgreSQL server
    Sync(sync::Arguments),
    /// Show, check or locate the settings
    Config(config::Arguments),
    /// Print a shell completion script
    Completions(completions::Arguments),
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man(completions::ManArguments),
}

impl CliCommand {
    /// True for commands whose output may be longer than a screen and that ask nothing.
    fn is_paged(&self) -> bool {
        match self {
            Self::Sessions(_)
            | Self::Search(_)
            | Self::Timeline(_)
            | Self::Today(_)
            | Self::Show(_)
            | Self::Context(_)
            | Self::Stats(_) => true,
            Self::Config(arguments) => arguments.is_paged(),
            Self::Queue(arguments) => arguments.is_paged(),
            _ => false,
        }
    }
}

/// Runs the command. Prints an error once, as a sentence to act on.
pub fn run(arguments: &Arguments, environment: Environment) -> ExitCode {
    let ended = dispatch(arguments, environment);
    // Also after an error: its message comes when the pager is gone.
    let printed = output::stdout::finish().context("cannot write the output");
    let ended = ended.and_then(|code| printed.map(|()| code));
    ended.unwrap_or_else(|error| {
        eprintln!("claude-mem: {}", render(&error));
        if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// An invalid argument.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

/// Renders an error and its causes, each once, with advice where one fix helps in every case.
fn render(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    if store.is_some_and(StoreError::is_damage) {
        message += "; `claude-mem restart` recovers it from the readable pages and the newest backup";
    }
    message
}

fn dispatch(arguments: &Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    // Files created by any command, including SQLite's, are private to their owner.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let home = Home::locate(environment.mem_home.clone(), environment.user_home.clone())?
        .on(environment.file_system);
    if arguments.command.is_paged() {
        output::stdout::page();
    }
    match &arguments.command {
        CliCommand::Install(arguments) => install::run(&home, &environment, arguments),
        CliCommand::Uninstall(arguments) => install::uninstall::run(&home, &environment, arguments),
        CliCommand::Update(arguments) => install::update::run(&home, arguments),
        CliCommand::Worker(arguments) => {
            service::worker::run(home, environment, arguments).context("cannot run the worker")
        }
        CliCommand::Start(_) => service::start::start(&home, &environment),
        CliCommand::Stop(_) => service::start::stop(&home, &environment),
        CliCommand::Restart(_) => service::start::restart(&home, &environment),
        CliCommand::Status(arguments) => service::status::run(&home, &environment, arguments),
        CliCommand::Statusline(_) => service::statusline::run(&home),
        CliCommand::Doctor(arguments) => doctor::run(&home, &environment, arguments),
        CliCommand::Logs(arguments) => service::logs::run(&home, &environment, arguments),
        CliCommand::Sessions(arguments) => memories::sessions::run(&home, &environment, arguments),
        CliCommand::Search(arguments) => memories::search::run(&home, &environment, arguments),
        CliCommand::Timeline(arguments) => memories::timeline::run(&home, &environment, arguments),
        CliCommand::Today(arguments) => memories::today::run(&home, &environment, arguments),
        CliCommand::Show(arguments) => memories::show::run(&home, &environment, arguments),
        CliCommand::Context(arguments) => memories::context::run(&home, &environment, arguments),
        CliCommand::Reindex(_) => data::reindex::run(&home),
        CliCommand::Learn(arguments) => memories::learn::run(&home, &environment, arguments),
        CliCommand::Model(arguments) => data::model::run(&home, &environment, arguments),
        CliCommand::Mcp(arguments) => service::mcp::run(&home, &environment, arguments),
        CliCommand::Open(arguments) => open::run(&home, &environment, arguments),
        CliCommand::Call(arguments) => service::call::run(&home, arguments),
        CliCommand::Queue(arguments) => service::queue::run(&home, &environment, arguments),
        CliCommand::Forget(arguments) => memories::forget::run(&home, &environment, arguments),
        CliCommand::Pin(arguments) => memories::correct::pin(&home, arguments),
        CliCommand::Veto(arguments) => memories::correct::veto(&home, &environment, arguments),
        CliCommand::Supersede(arguments) => memories::correct::supersede(&home, arguments),
        CliCommand::Merge(arguments) => memories::correct::merge(&home, arguments),
        CliCommand::Edit(arguments) => memories::correct::edit(&home, arguments),
        CliCommand::Review(arguments) => memories::review::run(&home, &environment, arguments),
        CliCommand::Value(arguments) => memories::value::run(&home, &environment, arguments),
        CliCommand::Stats(arguments) => memories::stats::run(&home, &environment, arguments),
        CliCommand::Backup(arguments) => data::backup::run(&home, arguments),
        CliCommand::Restore(arguments) => data::restore::run(&home, &environment, arguments),
        CliCommand::Export(arguments) => data::export::run(&home, &environment, arguments),
        CliCommand::Import(arguments) => data::import::run(&home, arguments),
        CliCommand::Backfill(arguments) => data::backfill::run(&home, &environment, arguments),
        CliCommand::Sync(arguments) => sync::run(&home, &environment, arguments),
        CliCommand::Config(arguments) => config::run(&home, &environment, arguments),
        CliCommand::Completions(arguments) => completions::run(arguments),
        CliCommand::Man(arguments) => completions::man(arguments),
    }
}
