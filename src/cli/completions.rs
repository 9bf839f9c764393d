//! `claude-mem completions`, and the man pages for packages. Both are generated from the command
//! definitions.

use std::io;
use std::path::{Path, PathBuf};
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
    out!("{}", script(arguments.shell));
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&arguments.directory)?;
    write_man(&arguments.directory)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the completion script for a shell.
pub fn script(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::Arguments::command(), "claude-mem", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes the man pages into a directory and returns their paths.
pub fn write_man(directory: &Path) -> io::Result<Vec<PathBuf>> {
    clap_mangen::generate_to(super::Arguments::command(), directory)?;
    let is_page = |name: &str| name.starts_with("claude-mem") && name.ends_with(".1");
    let names = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let pages = names.iter().filter(|name| name.to_str().is_some_and(is_page));
    Ok(pages.map(|name| directory.join(name)).collect())
}
