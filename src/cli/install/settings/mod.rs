//! Edits the text of Claude Code's settings: adds or removes our hooks and preserves every other
//! byte.
//!
//! Works on text only; [`settings_file`](super::settings_file) handles files.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde::de::IgnoredAny;

use crate::hook_events::{self, Wire};

/// The reason settings are left unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Invalid JSON, which the client does not read either.
    #[error(
        "not valid JSON (line {line}, column {column}: {message}), so Claude Code ignores the whole file; \
         comments and trailing commas are not allowed"
    )]
    Invalid {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// Valid JSON of an unexpected shape.
    #[error("{0}")]
    Shape(String),
}

/// A hook found in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundHook {
    /// The event that triggers it.
    pub event: String,
    /// The command.
    pub command: String,
}

/// A hook to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedHook {
    /// Its event, verb and timeout.
    pub wire: Wire,
    /// Its command.
    pub command: String,
}

impl WantedHook {
    fn value(&self) -> CstInputValue {
        let text = |text: &str| CstInputValue::String(text.to_owned());
        let hook = CstInputValue::Object(vec![
            ("type".into(), text("command")),
            ("command".into(), text(&self.command)),
            ("timeout".into(), CstInputValue::Number(self.wire.timeout.to_string())),
        ]);
        let matcher = self.wire.matcher.map(|matcher| ("matcher".to_owned(), text(matcher)));
        let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![hook]));
        CstInputValue::Object(matcher.into_iter().chain([hooks]).collect())
    }

    fn json(&self) -> serde_json::Value {
        let hook = serde_json::json!({
            "type": "command", "command": self.command, "timeout": self.wire.timeout,
        });
        match self.wire.matcher {
            Some(matcher) => serde_json::json!({"matcher": matcher, "hooks": [hook]}),
            None => serde_json::json!({"hooks": [hook]}),
        }
    }
}

/// Returns the text with exactly these hooks of ours. Replaces older hooks of ours; returns current
/// text unchanged.
pub fn with_hooks(text: &str, wanted: &[WantedHook]) -> Result<String, SettingsError> {
    let (mark, root) = parse(text)?;
    if is_wired(text, wanted)? {
        return Ok(text.to_owned());
    }
    let settings = root.object_value_or_create().ok_or_else(not_an_object)?;
    remove_ours(&settings, wanted);
    if wanted.is_empty() {
        return Ok(format!("{mark}{root}"));
    }
    let hooks = settings
        .object_value_or_create("hooks")
        .ok_or_else(|| SettingsError::Shape("\"hooks\" is not an object".into()))?;
    for hook in wanted {
        let event = hook.wire.event;
        let groups = hooks
            .array_value_or_create(event)
            .ok_or_else(|| SettingsError::Shape(format!("\"hooks.{event}\" is not a list")))?;
        groups.append(hook.value());
    }
    Ok(format!("{mark}{root}"))
}

/// Returns the text without our hooks, and without the containers that would be left empty.
pub fn without_hooks(text: &str) -> Result<String, SettingsError> {
    with_hooks(text, &[])
}

/// Returns every hook command in the settings.
pub fn commands(text: &str) -> Result<Vec<FoundHook>, SettingsError> {
    let (_, root) = parse(text)?;
    let mut found = Vec::new();
    let Some(hooks) = root.object_value().and_then(|settings| settings.object_value("hooks")) else {
        return Ok(found);
    };
    for property in hooks.properties() {
        let (Some(event), Some(groups)) = (property.decoded_name(), property.array_value()) else { continue };
        for hook in groups.elements().iter().filter_map(hooks_of).flat_map(|hooks| hooks.elements()) {
            if let Some(command) = command_of(&hook) {
                found.push(FoundHook { event: event.clone(), command });
            }
        }
    }
    Ok(found)
}

/// Returns the names of the enabled plugins.
pub fn enabled_plugins(text: &str) -> Vec<String> {
    let settings: serde_json::Value = serde_json::from_str(strip_mark(text).1).unwrap_or_default();
    let plugins = settings["enabledPlugins"].as_object().into_iter().flatten();
    plugins.filter(|(_, is_on)| **is_on == true).map(|(name, _)| name.clone()).collect()
}

/// True if the settings disable all hooks.
pub fn hooks_are_disabled(text: &str) -> bool {
    let settings: serde_json::Value = serde_json::from_str(strip_mark(text).1).unwrap_or_default();
    settings["disableAllHooks"] == true
}

/// Returns the hooks as JSON, for users who must add them by hand.
pub fn as_json(wanted: &[WantedHook]) -> String {
    let mut events = serde_json::Map::new();
    for hook in wanted {
        events.insert(hook.wire.event.to_owned(), serde_json::json!([hook.json()]));
    }
    format!("{:#}", serde_json::json!({ "hooks": events }))
}

/// True if our hooks are exactly the wanted ones.
fn is_wired(text: &str, wanted: &[WantedHook]) -> Result<bool, SettingsError> {
    let value: serde_json::Value = serde_json::from_str(strip_mark(text).1).unwrap_or_default();
    let ours = commands(text)?.into_iter().filter(|found| hook_events::is_ours(&found.command)).count();
    let is_there = |hook: &WantedHook| {
        let groups = value["hooks"][hook.wire.event].as_array();
        groups.is_some_and(|groups| groups.contains(&hook.json()))
    };
    Ok(ours == wanted.len() && wanted.iter().all(is_there))
}

fn strip_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

/// Returns the text's byte order mark, and the rest as a tree that prints the identical text.
fn parse(text: &str) -> Result<(&str, CstRootNode), SettingsError> {
    let (mark, rest) = strip_mark(text);
    let rest = if rest.trim().is_empty() { "{}\n" } else { rest };
    // Strict, as the client is; the tree's parser accepts more.
    serde_json::from_str::<IgnoredAny>(rest).map_err(|error| SettingsError::Invalid {
        line: error.line(),
        column: error.column(),
        message: message_of(&error),
    })?;
    let root =
        CstRootNode::parse(rest, &ParseOptions::default()).map_err(|error| SettingsError::Invalid {
            line: error.line_display(),
            column: error.column_display(),
            message: error.kind().to_string(),
        })?;
    if root.value().is_some() && root.object_value().is_none() {
        return Err(not_an_object());
    }
    let hooks = root.object_value().map_or(0, |settings| count_named(&settings, "hooks"));
    if hooks > 1 {
        return Err(SettingsError::Shape(
            "\"hooks\" occurs twice and Claude Code reads only the last; merge them".into(),
        ));
    }
    Ok((mark, root))
}

/// The parser's message without its position, which is reported separately.
fn message_of(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
}

fn not_an_object() -> SettingsError {
    SettingsError::Shape("not a JSON object".into())
}

fn count_named(object: &CstObject, name: &str) -> usize {
    object.properties().iter().filter(|property| property.decoded_name().as_deref() == Some(name)).count()
}

fn hooks_of(group: &CstNode) -> Option<CstArray> {
    group.as_object()?.array_value("hooks")
}

fn command_of(hook: &CstNode) -> Option<String> {
    hook.as_object()?.get("command")?.value()?.as_string_lit()?.decoded_value().ok()
}

/// Removes our hooks and the containers left empty. Keeps the list of an event that is wanted
/// again, to preserve its position in the file.
fn remove_ours(settings: &CstObject, wanted: &[WantedHook]) {
    let Some(hooks) = settings.object_value("hooks") else { return };
    let mut removed = false;
    for property in hooks.properties() {
        let Some(groups) = property.array_value() else { continue };
        if !remove_from_groups(&groups) {
            continue;
        }
        removed = true;
        let is_wanted = wanted.iter().any(|hook| Some(hook.wire.event) == property.decoded_name().as_deref());
        if groups.elements().is_empty() && !is_wanted {
            property.remove();
        }
    }
    if removed
        && hooks.properties().is_empty()
        && wanted.is_empty()
        && let Some(property) = settings.get("hooks")
    {
        property.remove();
    }
}

fn remove_from_groups(groups: &CstArray) -> bool {
    let mut removed = false;
    for group in groups.elements() {
        let Some(hooks) = hooks_of(&group) else { continue };
        let ours: Vec<_> = hooks
            .elements()
            .into_iter()
            .filter(|hook| command_of(hook).is_some_and(|command| hook_events::is_ours(&command)))
            .collect();
        if ours.is_empty() {
            continue;
        }
        removed = true;
        ours.into_iter().for_each(CstNode::remove);
        if hooks.elements().is_empty() {
            group.remove();
        }
    }
    removed
}

#[cfg(test)]
mod tests;
