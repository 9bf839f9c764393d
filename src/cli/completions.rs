//! `claude-mem completions`, and the manual's pages for packages: both made from the commands themselves.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

/// Print what a shell needs to complete our commands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claude-mem completions bash > ~/.local/share/bash-completion/completions/claude-mem"
)]
pub struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

/// Write the manual's pages into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem man target/man")]
pub struct ManArguments {
    /// The directory
    directory: PathBuf,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut command = super::Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "claude-mem", &mut text);
    say_as_is!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&arguments.directory)?;
    clap_mangen::generate_to(super::Arguments::command(), &arguments.directory)?;
    Ok(ExitCode::SUCCESS)
}
