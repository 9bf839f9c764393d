//! `claude-mem config`: shows, checks and locates the settings.

use std::process::ExitCode;

use crate::config::{Config, DEFAULTS, Environment};
use crate::paths::Home;

/// Show, check or locate the settings
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem config show\n  claude-mem config check")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print every setting with its default and its meaning
    Show,
    /// Check your settings and report the first mistake
    Check,
    /// Print the path of your settings file
    Path,
}

impl Arguments {
    /// True if the output may be long.
    pub fn is_paged(&self) -> bool {
        matches!(self.action, Action::Show)
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Show => out!("{DEFAULTS}"),
        Action::Path => outln!("{}", home.config().display()),
        Action::Check => {
            Config::load(&home.config(), environment)?;
            outln!("The settings are valid.");
            for name in Config::variables_that_set_nothing(environment) {
                outln!("note: {name} has no effect: there is no such setting (see `claude-mem config show`)");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
