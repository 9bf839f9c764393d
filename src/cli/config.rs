//! `claude-mem config`: shows, changes, checks and locates the settings.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::UsageError;
use super::install::settings_file;
use super::output::style::{Style, Tone, harmless};
use super::output::table::{Column, Table};
use crate::api::{Setting, Settings};
use crate::config::{Config, ConfigError, DEFAULTS, Environment, edit};
use crate::llm::{Choice, choose, guard};
use crate::paths::Home;
use crate::privacy::settings::in_force;
use crate::search::closest;

/// Show, change, check or locate the settings
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem config effective\n  claude-mem config set compress.provider local\n  claude-mem config check"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigAction {
    /// Print every setting with its default and its meaning
    Show,
    /// Print every setting in force, and where its value comes from
    Effective {
        /// Only those that are not defaults
        #[arg(long)]
        changed: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a setting
    Get {
        /// Section and key, as in compress.provider
        key: String,
    },
    /// Change a setting in your settings file
    Set {
        /// Section and key, as in compress.provider
        key: String,
        /// The new value; texts need no quotes
        value: String,
    },
    /// Remove a setting from your settings file: its default applies again
    Unset {
        /// Section and key, as in compress.provider
        key: String,
    },
    /// Check your settings and report the first mistake
    Check,
    /// Print the path of your settings file
    Path,
}

impl Arguments {
    /// True if the output may be long.
    pub fn is_paged(&self) -> bool {
        matches!(self.action, ConfigAction::Show | ConfigAction::Effective { .. })
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        ConfigAction::Show => out!("{DEFAULTS}"),
        ConfigAction::Path => outln!("{}", home.config().display()),
        ConfigAction::Effective { changed, json } => effective(home, environment, *changed, *json)?,
        ConfigAction::Get { key } => outln!("{}", unquoted(&found(home, environment, key)?.value)),
        ConfigAction::Set { key, value } => set(home, environment, key, value)?,
        ConfigAction::Unset { key } => unset(home, environment, key)?,
        ConfigAction::Check => check(home, environment)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn found(home: &Home, environment: &Environment, key: &str) -> anyhow::Result<Setting> {
    let settings = in_force(&home.config(), environment);
    match settings.iter().find(|setting| setting.key == key) {
        Some(setting) => Ok(setting.clone()),
        None => bail!(unknown(key, &settings)),
    }
}

fn unknown(key: &str, settings: &[Setting]) -> UsageError {
    let closest = closest(key, settings.iter().map(|setting| setting.key.as_str()));
    let hint =
        closest.map_or("see `claude-mem config show`".into(), |known| format!("did you mean {known}?"));
    UsageError(format!("there is no setting {}; {hint}", harmless(key)))
}

/// A TOML string without its quotes, for scripts.
fn unquoted(value: &str) -> String {
    match toml::from_str::<std::collections::BTreeMap<String, String>>(&format!("v = {value}")) {
        Ok(mut parsed) => parsed.remove("v").unwrap_or_default(),
        Err(_) => value.to_owned(),
    }
}

fn effective(home: &Home, environment: &Environment, changed: bool, json: bool) -> anyhow::Result<()> {
    let mut settings = in_force(&home.config(), environment);
    settings.retain(|setting| !changed || !setting.origin.is_empty());
    if json {
        outln!("{}", serde_json::to_string_pretty(&Settings { settings })?);
        return Ok(());
    }
    if settings.is_empty() {
        outln!("All settings have their defaults.");
        return Ok(());
    }
    let mut table = Table::new(&[Column::text("KEY"), Column::flexible("VALUE"), Column::text("FROM")]);
    for setting in &settings {
        let is_default = setting.origin.is_empty();
        let origin = if is_default { "default" } else { setting.origin.as_str() };
        let tone = if is_default { Tone::Faint } else { Tone::Good };
        table.row([(&setting.key, Tone::Plain), (&setting.value, Tone::Plain), (origin, tone)]);
    }
    table.print(Style::of_stdout());
    Ok(())
}

fn set(home: &Home, environment: &Environment, key: &str, value: &str) -> anyhow::Result<()> {
    let (section, name) = split(home, environment, key)?;
    let toml = Config::as_toml(section, name, value);
    let before = found(home, environment, key).map(|setting| setting.value).unwrap_or_default();
    change(home, |text| Ok(edit::set(text, section, name, &toml)))?;
    let was = if before.is_empty() || before == toml { String::new() } else { format!(" (was {before})") };
    outln!("{key} = {toml}{was}");
    explain(home, environment, key);
    Ok(())
}

fn unset(home: &Home, environment: &Environment, key: &str) -> anyhow::Result<()> {
    let (section, name) = split(home, environment, key)?;
    change(home, |text| {
        edit::unset(text, section, name).with_context(|| format!("{key} is not set in your settings file"))
    })?;
    let now = found(home, environment, key).map(|setting| setting.value).unwrap_or_default();
    outln!("{key} = {now} (the default)");
    explain(home, environment, key);
    Ok(())
}

/// Splits a key. A key of `prices` names a model, so it need not be known.
fn split<'a>(home: &Home, environment: &Environment, key: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    let settings = in_force(&home.config(), environment);
    let is_known = key.starts_with("prices.") || settings.iter().any(|setting| setting.key == key);
    match key.split_once('.') {
        Some(parts) if is_known => Ok(parts),
        _ => bail!(unknown(key, &settings)),
    }
}

/// Edits the file, unless the result has a mistake that the file did not have.
fn change(home: &Home, edit: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let file = home.config();
    let before = settings_file::read(&file)?.unwrap_or_default();
    if let Some(problem) = Config::mistake(&file, &before) {
        bail!("{problem}; correct this first, nothing was changed");
    }
    let after = edit(&before)?;
    if let Some(problem) = Config::mistake(&file, &after) {
        bail!("{}: {}; nothing was changed", problem.key, problem.message);
    }
    home.prepare()?;
    settings_file::replace(&file, None, |text| Ok(edit(text).unwrap_or_else(|_| text.to_owned())))?;
    Ok(())
}

/// Says what keeps a change from being in force.
fn explain(home: &Home, environment: &Environment, key: &str) {
    let setting = found(home, environment, key).ok();
    if let Some(variable) =
        setting.map(|setting| setting.origin).filter(|origin| origin.starts_with("CLAUDE_MEM_"))
    {
        outln!("note: {variable} overrides it in this shell");
    }
    if crate::worker::system::lock::Lock::holder(home).is_some() {
        outln!("The running service uses it after `claude-mem restart`.");
    }
}

fn check(home: &Home, environment: &Environment) -> anyhow::Result<()> {
    let config = match Config::load(&home.config(), environment) {
        Ok(config) => config,
        Err(ConfigError::Bad(problem)) => {
            let known = Config::in_force(&home.config(), &Environment::default());
            let closest = closest(&problem.key, known.iter().map(|[key, ..]| key.as_str()));
            let hint = closest.filter(|known| *known != problem.key);
            bail!("{problem}{}", hint.map(|known| format!("; did you mean {known}?")).unwrap_or_default());
        }
        Err(error) => return Err(error.into()),
    };
    if let Choice::Unusable { why } =
        choose(&config, home, environment, &guard::own_program().unwrap_or_default())
    {
        bail!("the settings are valid, but the provider cannot be used: {why}");
    }
    outln!("The settings are valid.");
    for name in Config::variables_that_set_nothing(environment) {
        outln!("note: {name} has no effect: there is no such setting (see `claude-mem config show`)");
    }
    Ok(())
}
