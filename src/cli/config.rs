//! `claude-mem config`: what the settings are, whether they are right, where they are.

use std::process::ExitCode;

use crate::config::{Config, DEFAULTS, Environment};
use crate::paths::Home;

/// Show, check and find the settings
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem config show\n  claude-mem config check")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Every setting with its default and what it means
    Show,
    /// Tell the first mistake in your settings, if there is one
    Check,
    /// Where your settings are
    Path,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Show => say_as_is!("{DEFAULTS}"),
        Action::Path => say!("{}", home.config().display()),
        Action::Check => {
            Config::load(&home.config(), environment)?;
            say!("The settings are right.");
            for name in Config::variables_that_set_nothing(environment) {
                say!("note: {name} sets nothing: there is no such setting (claude-mem config show)");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
