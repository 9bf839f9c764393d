//! `claude-mem completions`, and the man pages for packages. Both are generated from the command
//! definitions.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claude-mem completions bash > ~/.local/share/bash-completion/completions/claude-mem"
)]
pub struct Arguments {
    /// Target shell
    shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem man target/man")]
pub struct ManArguments {
    /// Output directory
    directory: PathBuf,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut command = super::Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "claude-mem", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&arguments.directory)?;
    clap_mangen::generate_to(super::Arguments::command(), &arguments.directory)?;
    Ok(ExitCode::SUCCESS)
}
