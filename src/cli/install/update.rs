//! `claude-mem update`: installs the newest version from the place that this one came from: a checkout, or a release archive.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use super::programs::Programs;
use super::record::Record;
use crate::cli::run_command;
use crate::paths::Home;

/// Install the newest version from the checkout or the release that this one came from
///
/// A checkout is pulled and built again. From a release, name the directory of the unpacked new one.
/// Packages are updated by their package manager.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem update\n  claude-mem update ~/Downloads/claude-mem-0.2.0-x86_64-linux"
)]
pub struct Arguments {
    /// The directory of an unpacked release
    directory: Option<PathBuf>,
    /// Show the commands without running them
    #[arg(long)]
    dry_run: bool,
}

pub fn run(home: &Home, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let record = Record::load(home);
    let commands = match (&arguments.directory, &record.checkout) {
        (Some(directory), _) => vec![from_release(directory, &record)?],
        (None, Some(checkout)) => from_checkout(checkout, &record)?,
        (None, None) => bail!(
            "this installation came from no checkout; run `claude-mem update DIRECTORY` with an unpacked release, or use what \
             installed it: `cargo install` again and then `claude-mem restart`, or your package manager"
        ),
    };
    for mut command in commands {
        let shown = run_command::shown(&command);
        outln!("{shown}");
        if arguments.dry_run {
            continue;
        }
        let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
        if !status.success() {
            bail!("`{shown}` failed; the installed version is unchanged");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of the installed programs, if `install` copied them.
fn bin_dir(record: &Record) -> Option<&Path> {
    record.programs.first().and_then(|program| program.parent())
}

fn from_release(directory: &Path, record: &Record) -> anyhow::Result<Command> {
    let programs = Programs::in_directory(&directory.join("bin"));
    if !programs.main.is_file() || !programs.hook.is_file() {
        bail!(
            "{} is no unpacked release: bin/claude-mem or bin/claude-mem-hook is missing",
            directory.display()
        );
    }
    let mut command = Command::new(&programs.main);
    command.arg("install");
    if let Some(bin) = bin_dir(record) {
        command.arg("--bin-dir").arg(bin);
    }
    Ok(command)
}

fn from_checkout(checkout: &Path, record: &Record) -> anyhow::Result<Vec<Command>> {
    let mut pull = Command::new("git");
    pull.arg("-C").arg(checkout).args(["pull", "--ff-only"]);
    let mut make = Command::new("make");
    make.arg("-C").arg(checkout).arg("install");
    if let Some(prefix) = bin_dir(record).filter(|bin| bin.ends_with("bin")).and_then(Path::parent) {
        make.arg(format!("PREFIX={}", prefix.display()));
    }
    if !checkout.join("Makefile").is_file() {
        bail!("the checkout {} is gone; run `make install` in a new one", checkout.display());
    }
    Ok(vec![pull, make])
}

/// The checkout that a program was built in: it is in `target/bin`, where `make` puts it.
pub fn checkout_of(program: &Path) -> Option<PathBuf> {
    let root = program.parent()?.parent()?.parent()?;
    let is_built = program.parent()?.ends_with("target/bin");
    (is_built && root.join("Makefile").is_file() && root.join(".git").exists()).then(|| root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_make_built_have_a_checkout() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let program = root.join("target/bin/claude-mem");
        assert_eq!(checkout_of(&program), None);
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join("Makefile"), "").unwrap();
        assert_eq!(checkout_of(&program).as_deref(), Some(root));
        assert_eq!(checkout_of(&root.join("bin/claude-mem")), None);
    }
}
