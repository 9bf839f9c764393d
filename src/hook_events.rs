//! The Claude Code events that call our hook: the one table from which settings and the plugin are
//! generated.
//!
//! Covers what the client accepts, not where its settings are.

use std::fmt;
use std::path::Path;

use crate::model::Agent;

/// File name of the hook program, which identifies our entries.
pub const HOOK_NAME: &str = "claude-mem-hook";

/// One event that calls the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// The client's name of the event.
    pub event: &'static str,
    /// Matcher for the event's kinds; none matches all.
    pub matcher: Option<&'static str>,
    /// Verb passed to the hook.
    pub verb: &'static str,
    /// Time after which the client kills the hook, in its unit: seconds, or milliseconds for Gemini CLI. Far above its run
    /// time; always set explicitly, because the client's default for the end of a session is tight.
    pub timeout: u32,
    /// True if every client with hooks supports the event.
    pub is_old: bool,
}

const fn wire(event: &'static str, verb: &'static str, timeout: u32) -> Wire {
    Wire { event, matcher: None, verb, timeout, is_old: true }
}

/// All events we hook.
pub const WIRING: [Wire; 9] = [
    Wire { matcher: Some("startup|resume|clear|compact|fork"), ..wire("SessionStart", "context", 10) },
    wire("UserPromptSubmit", "new", 5),
    // Older clients run it and ignore its output.
    Wire {
        matcher: Some("Edit|Write|MultiEdit|NotebookEdit"),
        is_old: false,
        ..wire("PreToolUse", "file", 5)
    },
    wire("PostToolUse", "save", 5),
    Wire { is_old: false, ..wire("PostToolUseFailure", "save", 5) },
    wire("Stop", "summary", 5),
    Wire { is_old: false, ..wire("StopFailure", "summary", 5) },
    wire("PreCompact", "compact", 5),
    wire("SessionEnd", "end", 5),
];

/// The events of Codex, which has Claude Code's names and payloads.
const CODEX: [Wire; 6] = [
    wire("SessionStart", "context", 10),
    wire("UserPromptSubmit", "new", 5),
    wire("PostToolUse", "save", 5),
    wire("Stop", "summary", 5),
    wire("PreCompact", "compact", 5),
    wire("SessionEnd", "end", 3),
];

/// The events of Gemini CLI. It announces a compression before every prompt, needed or not, so that one is left out.
const GEMINI: [Wire; 5] = [
    wire("SessionStart", "context", 10_000),
    wire("BeforeAgent", "new", 5_000),
    wire("AfterTool", "save", 5_000),
    wire("AfterAgent", "summary", 5_000),
    wire("SessionEnd", "end", 5_000),
];

/// The events of Copilot CLI, by the names for which it sends Claude Code's fields.
const COPILOT: [Wire; 7] = [
    wire("SessionStart", "context", 10),
    wire("UserPromptSubmit", "new", 5),
    wire("PostToolUse", "save", 5),
    wire("PostToolUseFailure", "save", 5),
    wire("Stop", "summary", 5),
    wire("PreCompact", "compact", 5),
    wire("SessionEnd", "end", 5),
];

/// Returns the events of an agent that runs hooks from its settings; none for one that does not.
pub fn for_agent(agent: Agent) -> &'static [Wire] {
    match agent {
        Agent::ClaudeCode => &WIRING,
        Agent::Codex => &CODEX,
        Agent::Gemini => &GEMINI,
        Agent::Copilot => &COPILOT,
        Agent::Cursor | Agent::Opencode => &[],
    }
}

/// A version of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientVersion(pub u32, pub u32, pub u32);

/// First version that skips an unknown entry. In older ones, a single unknown entry silently
/// disabled all hooks of the file.
pub const FORGIVING_SINCE: ClientVersion = ClientVersion(2, 1, 197);

impl ClientVersion {
    /// Parses the output of `claude --version`: "2.1.325 (Claude Code)".
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace().next()?.split(['.', '-', '+']).map(str::parse);
        Some(Self(parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

impl fmt::Display for ClientVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Returns the events for a client of this version. An unknown version gets only those that are
/// safe everywhere.
pub fn for_client(version: Option<ClientVersion>) -> impl Iterator<Item = Wire> {
    let knows_all = version.is_some_and(|version| version >= FORGIVING_SINCE);
    WIRING.into_iter().filter(move |wire| wire.is_old || knows_all)
}

/// Returns the command that runs the hook. Pass `data` only if the data directory is not the
/// default: the client may be started without the variable that was set at installation.
pub fn command(hook: &Path, verb: &str, data: Option<&Path>) -> String {
    let hook = quoted(&hook.to_string_lossy());
    match data {
        Some(data) => format!("CLAUDE_MEM_HOME={} {hook} {verb}", quoted(&data.to_string_lossy())),
        None => format!("{hook} {verb}"),
    }
}

/// Quotes the text as one shell word.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// True if a command runs our hook, of any version and in any directory.
pub fn is_ours(command: &str) -> bool {
    command.match_indices(HOOK_NAME).any(|(start, name)| {
        let before = command[..start].chars().next_back();
        let after = command[start + name.len()..].chars().next();
        before.is_none_or(|c| "/'\" \\".contains(c)) && after.is_none_or(|c| "'\" ".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Verb;

    #[test]
    fn every_event_uses_a_known_verb() {
        for wire in Agent::ALL.into_iter().flat_map(for_agent) {
            assert!(Verb::from_word(wire.verb).is_some(), "{wire:?}");
        }
    }

    #[test]
    fn older_clients_get_only_safe_events() {
        let events = |version| for_client(version).map(|wire| wire.event).collect::<Vec<_>>();
        let safe = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PreCompact", "SessionEnd"];
        assert_eq!(events(None), safe);
        assert_eq!(events(ClientVersion::parse("2.1.20 (Claude Code)\n")), safe);
        assert_eq!(events(ClientVersion::parse("2.1.197 (Claude Code)")).len(), WIRING.len());
        assert_eq!(events(ClientVersion::parse("3.0.0-beta.1")).len(), WIRING.len());
        assert_eq!(ClientVersion::parse("command not found"), None);
    }

    #[test]
    fn command_quotes_any_path_for_the_shell() {
        for path in ["/usr/bin/claude-mem-hook", "/home/a b/it's $HOME/claude-mem-hook"] {
            let printed = std::process::Command::new("sh")
                .args(["-c", &format!("printf '%s|' {}", command(Path::new(path), "save", None))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), format!("{path}|save|"));
        }
        let elsewhere = command(Path::new("/bin/claude-mem-hook"), "new", Some(Path::new("/my data")));
        assert_eq!(elsewhere, "CLAUDE_MEM_HOME='/my data' /bin/claude-mem-hook new");
    }

    #[test]
    fn only_our_own_commands_are_recognised() {
        for ours in [
            "claude-mem-hook save",
            "/opt/claude-mem-hook save",
            "'/a b/claude-mem-hook' save",
            "\"${CLAUDE_PLUGIN_ROOT}/bin/claude-mem-hook\" end",
            "CLAUDE_MEM_HOME=/x /y/claude-mem-hook new",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["node claude-mem/hook.js", "my-claude-mem-hook-wrapper", "claude-mem hook save", "true"]
        {
            assert!(!is_ours(other), "{other}");
        }
    }
}
