//! The text of a user record as UserPromptSubmit has it.

use std::sync::LazyLock;

use regex::Regex;

/// Commands that the client handles itself, without a hook.
const BUILT_IN: &str = " clear model exit quit mcp config cost compact resume help status login logout plugin plugins usage \
    context memory permissions hooks rewind terminal-setup vim doctor export add-dir fast effort reload-plugins ide theme \
    tasks todos bug release-notes output-style statusline upgrade agents rename stats remote-env desktop chrome sandbox \
    feedback passes privacy-settings install-github-app keybindings color extra-usage insights copy fork branch btw rc \
    remote-control ";

/// Openings of records that the client writes in the user's name.
const INJECTED: [&str; 9] = [
    "[Request interrupted by user",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<command-message>",
    "<system-reminder>",
    "Caveat: The messages below",
    "<user-memory-input>",
];

static EDITOR_TAGS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<ide_[a-z_]+>.*?</ide_[a-z_]+>").unwrap());

/// Returns the prompt, or nothing if the client fires no hook for this text.
pub fn prompt_of(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed[..trimmed.floor_char_boundary(400)].contains("<command-name>") {
        return command(trimmed);
    }
    if trimmed.is_empty() || INJECTED.iter().any(|opening| trimmed.starts_with(opening)) {
        return None;
    }
    if trimmed.starts_with("<ide_") {
        let typed = EDITOR_TAGS.replace_all(trimmed, "").trim().to_owned();
        return (!typed.is_empty()).then_some(typed);
    }
    Some(text.to_owned())
}

fn command(text: &str) -> Option<String> {
    let name = between(text, "<command-name>", "</command-name>").trim_start_matches('/');
    if BUILT_IN.contains(&format!(" {name} ")) {
        return None;
    }
    let arguments = between(text, "<command-args>", "</command-args>");
    Some(format!("/{name} {arguments}").trim().to_owned())
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let inner = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    inner.map_or("", |(inner, _)| inner.trim())
}
