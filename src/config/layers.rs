//! Merges the user's file and the environment over the defaults, and reports values that cannot be used.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, DEFAULTS, Environment, Problem};

/// One key that the user set.
pub(super) struct UserSetting<'a> {
    section: &'a str,
    key: &'a str,
    value: Spanned<DeValue<'a>>,
    place: String,
}

impl UserSetting<'_> {
    fn problem(&self, error: &toml::de::Error) -> Problem {
        let key =
            if self.key.is_empty() { self.section.into() } else { format!("{}.{}", self.section, self.key) };
        Problem { place: self.place.clone(), key, message: error.message().to_owned() }
    }
}

/// The defaults with the user's settings laid over them.
#[derive(Clone)]
struct Layers<'a>(DeTable<'a>);

impl<'a> Layers<'a> {
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn new() -> Self {
        Self(DeTable::parse(DEFAULTS).expect("the compiled-in defaults are TOML").into_inner())
    }

    fn config(&self) -> Result<Config, toml::de::Error> {
        Config::deserialize(toml::de::Deserializer::from(Spanned::new(0..0, self.0.clone())))
    }

    fn lay(&mut self, setting: &UserSetting<'a>) {
        let section = self.0.get_mut(setting.section).map(Spanned::get_mut);
        match section {
            Some(DeValue::Table(section)) if !setting.key.is_empty() => {
                section.insert(Spanned::new(0..0, setting.key.into()), setting.value.clone());
            }
            _ => {
                self.0.insert(Spanned::new(0..0, setting.section.into()), setting.value.clone());
            }
        }
    }
}

/// True if a file sets nothing, like the one that `install` writes: the hook then skips parsing it. False for a file with a
/// mistake, even one inside a comment.
pub(super) fn is_all_comments(text: &str) -> bool {
    let mut seen = [false; KNOWN_SECTIONS.len()];
    let mut is_new = |section: usize| !std::mem::replace(&mut seen[section], true);
    text.lines().all(|line| {
        let line = line.trim_matches(BLANK);
        let is_nothing =
            line.is_empty() || line.starts_with('#') || known_section(line).is_some_and(&mut is_new);
        is_nothing && !line.contains(|letter: char| letter.is_control() && letter != '\t')
    })
}

/// White space in TOML; Unicode has more.
const BLANK: [char; 2] = [' ', '\t'];

fn known_section(line: &str) -> Option<usize> {
    let header = line.strip_prefix('[')?.strip_suffix(']')?;
    KNOWN_SECTIONS.iter().position(|name| *name == header)
}

pub(super) fn layered(
    file: &Path,
    text: &str,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Config {
    let parsed = DeTable::parse(text);
    let mut settings = match &parsed {
        Ok(table) => file_settings(file, text, table.get_ref()),
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let place = format!("{}:{line}", file.display());
            problems.push(Problem { place, key: String::new(), message: error.message().to_owned() });
            Vec::new()
        }
    };
    if settings.is_empty() && environment.overrides.is_empty() {
        return Config::default();
    }
    let mut layers = Layers::new();
    settings.extend(environment_settings(&layers.0, &environment.overrides));
    let mut all = layers.clone();
    settings.iter().for_each(|setting| all.lay(setting));
    if let Ok(config) = all.config() {
        return config;
    }
    // At least one setting is wrong: apply them one at a time to find it and keep the rest.
    for setting in &settings {
        let mut with = layers.clone();
        with.lay(setting);
        match with.config() {
            Ok(_) => layers = with,
            Err(error) => problems.push(setting.problem(&error)),
        }
    }
    layers.config().unwrap_or_default()
}

pub(super) fn file_settings<'a>(file: &Path, text: &str, table: &'a DeTable<'a>) -> Vec<UserSetting<'a>> {
    let place = |offset| format!("{}:{}", file.display(), line_of(text, offset));
    let mut settings = Vec::new();
    // In the order of the file, so that the first mistake is the one nearest to its top.
    let mut sections: Vec<_> = table.iter().collect();
    sections.sort_by_key(|(section, _)| section.span().start);
    for (section, value) in sections {
        let name = section.get_ref().as_ref();
        let Some(keys) = value.get_ref().as_table().filter(|_| KNOWN_SECTIONS.contains(&name)) else {
            settings.push(UserSetting {
                section: name,
                key: "",
                value: value.clone(),
                place: place(section.span().start),
            });
            continue;
        };
        let mut keys: Vec<_> = keys.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        settings.extend(keys.into_iter().map(|(key, value)| UserSetting {
            section: name,
            key: key.get_ref(),
            value: value.clone(),
            place: place(key.span().start),
        }));
    }
    settings
}

/// Sections whose keys are merged one by one; any other section is reported as one unknown key.
pub(super) const KNOWN_SECTIONS: [&str; 19] = [
    "hook",
    "capture",
    "queue",
    "worker",
    "batch",
    "compress",
    "anthropic",
    "openai",
    "claude_cli",
    "cost",
    "prices",
    "context",
    "search",
    "backfill",
    "retention",
    "backup",
    "viewer",
    "value",
    "sync",
];

/// The variable from which Anthropic's own programs take the address of the API.
pub(super) const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// Names known from other programs, accepted in addition to `CLAUDE_MEM_<SECTION>_<KEY>`.
const OLD_NAMES: [(&str, &str, &str); 4] = [
    (ANTHROPIC_BASE_URL, "anthropic", "base_url"),
    ("CLAUDE_MEM_MODEL", "compress", "model"),
    ("CLAUDE_MEM_VERBOSITY", "compress", "verbosity"),
    ("CLAUDE_MEM_BATCHING_ENABLED", "batch", "enabled"),
];

fn environment_settings<'a>(
    defaults: &DeTable<'a>,
    overrides: &'a [(String, String)],
) -> Vec<UserSetting<'a>> {
    let mut settings = Vec::new();
    for (name, text) in overrides {
        let Some((section, key)) = key_of_variable(defaults, name) else { continue };
        let default = defaults.get(section).and_then(|section| section.get_ref().get(key));
        let Some(default) = default.map(Spanned::get_ref) else { continue };
        settings.push(UserSetting {
            section,
            key,
            value: Spanned::new(0..0, value_like(default, text)),
            place: name.clone(),
        });
    }
    settings
}

/// Every setting with its value as TOML and its origin: a file and line, a variable, or nothing for a default.
#[cfg(feature = "service")]
pub(super) fn in_force(file: &Path, text: &str, environment: &Environment) -> Vec<[String; 3]> {
    let parsed = DeTable::parse(text);
    let mut layers = Layers::new();
    let mut settings =
        parsed.as_ref().map(|table| file_settings(file, text, table.get_ref())).unwrap_or_default();
    settings.extend(environment_settings(&layers.0, &environment.overrides));
    let mut origins = Vec::new();
    for setting in &settings {
        let mut with = layers.clone();
        with.lay(setting);
        if with.config().is_ok() {
            layers = with;
            origins.push((format!("{}.{}", setting.section, setting.key), setting.place.clone()));
        }
    }
    let mut all = Vec::new();
    for (section, value) in &layers.0 {
        let DeValue::Table(keys) = value.get_ref() else { continue };
        for (key, value) in keys {
            let name = format!("{}.{}", section.get_ref(), key.get_ref());
            let origin = origins.iter().rev().find(|(known, _)| *known == name);
            let origin = origin.map(|(_, place)| place.clone()).unwrap_or_default();
            all.push([name, shown(value.get_ref()), origin]);
        }
    }
    all
}

/// The TOML of a value that a user typed: of the type that the default has.
#[cfg(feature = "service")]
pub(super) fn as_toml(section: &str, key: &str, typed: &str) -> String {
    let defaults = Layers::new().0;
    let default = defaults.get(section).and_then(|section| section.get_ref().get(key));
    match default.map(Spanned::get_ref) {
        Some(default) => shown(&value_like(default, typed)),
        None => typed.trim().to_owned(),
    }
}

#[cfg(feature = "service")]
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(fields) => {
            let field = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                format!("{} = {}", key.get_ref(), shown(value.get_ref()))
            };
            format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Variables that look like a setting but match no key: a misspelt name, or another program's variable.
#[cfg(feature = "service")]
pub(super) fn variables_that_set_nothing(environment: &Environment) -> Vec<&str> {
    let defaults = Layers::new().0;
    let names = environment.overrides.iter().map(|(name, _)| name.as_str());
    names.filter(|name| key_of_variable(&defaults, name).is_none()).collect()
}

fn key_of_variable(defaults: &DeTable<'_>, variable: &str) -> Option<(&'static str, &'static str)> {
    if let Some((_, section, key)) = OLD_NAMES.iter().find(|(name, ..)| *name == variable) {
        return Some((section, key));
    }
    let rest = variable.strip_prefix("CLAUDE_MEM_")?;
    KNOWN_SECTIONS.iter().find_map(|section| {
        let key = strip_prefix_ignore_case(rest, section)?.strip_prefix('_')?;
        let keys = defaults.get(*section)?.get_ref().as_table()?;
        // Borrow the name from the compiled-in text, which is 'static.
        let known = keys.keys().find(|known| known.get_ref().eq_ignore_ascii_case(key))?;
        let start = known.span();
        DEFAULTS.get(start).map(|name| (*section, name))
    })
}

fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// Parses a variable's text as a value of the default's type.
fn value_like<'a>(default: &DeValue<'_>, text: &'a str) -> DeValue<'a> {
    let trimmed = text.trim();
    match default {
        DeValue::String(_) => DeValue::String(text.into()),
        DeValue::Array(_) if !trimmed.starts_with('[') => DeValue::Array(
            trimmed
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Spanned::new(0..0, DeValue::String(item.into())))
                .collect(),
        ),
        DeValue::Boolean(_) if trimmed == "1" => DeValue::Boolean(true),
        DeValue::Boolean(_) if trimmed == "0" => DeValue::Boolean(false),
        _ => match DeValue::parse(trimmed) {
            Ok(value) => value.into_inner(),
            Err(_) => DeValue::String(text.into()),
        },
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
