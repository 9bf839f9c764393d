//! The process's environment. No other module reads it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

#[cfg(feature = "service")]
use super::Outgoing;
use super::layers::ANTHROPIC_BASE_URL;
use crate::paths::file_system::FileSystem;

/// The environment, read once.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `CLAUDE_MEM_HOME`.
    pub mem_home: Option<PathBuf>,
    /// `HOME`, else the entry in the user database.
    pub user_home: Option<PathBuf>,
    /// `CLAUDE_PROJECT_DIR`: where the client was started.
    pub project_dir: Option<PathBuf>,
    /// `CLAUDE_CODE_SESSION_ID`: the session that started us.
    #[cfg(feature = "service")]
    pub session_id: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config_dir: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`: where the client keeps its own files.
    pub client_dir: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    #[cfg(feature = "service")]
    pub data_dir: Option<PathBuf>,
    /// `CODEX_HOME`: where Codex keeps its settings.
    #[cfg(feature = "service")]
    pub codex_home: Option<PathBuf>,
    /// `COPILOT_HOME`: where Copilot CLI keeps its settings.
    pub copilot_home: Option<PathBuf>,
    /// `CLAUDE_CODE_SESSION_ATTENDED=0`, or a `CLAUDE_CODE_ENTRYPOINT` of the SDK, as older clients have it: the session runs by
    /// `claude -p` or a program, so that nobody reads messages.
    pub is_unattended: bool,
    /// `CLAUDE_MEM_INTERNAL=1`: the worker started this process, so hooks must do nothing.
    pub internal: bool,
    /// `CLAUDE_MEM_FILE_SYSTEM`: overrides the type of the data directory's file system, as a hexadecimal number; for tests.
    pub file_system: Option<FileSystem>,
    /// `CLAUDE_MEM_HOOK_DEBUG`: the hook may write to stderr.
    pub hook_debug: bool,
    /// Keys, proxies and paths for outgoing connections.
    #[cfg(feature = "service")]
    pub outgoing: Outgoing,
    /// `CLAUDE_MEM_*` and the like, for settings, sorted by name.
    pub(super) overrides: Vec<(String, String)>,
}

impl Environment {
    /// Reads the process's environment.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn capture() -> Self {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let mut overrides: Vec<_> = std::env::vars_os().filter_map(setting_variable).collect();
        // The last one wins: CLAUDE_MEM_* sorts after the shared ANTHROPIC_BASE_URL.
        overrides.sort();
        Self {
            mem_home: path("CLAUDE_MEM_HOME"),
            user_home: path("HOME").or_else(std::env::home_dir),
            project_dir: path("CLAUDE_PROJECT_DIR"),
            #[cfg(feature = "service")]
            session_id: std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty()),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            config_dir: path("XDG_CONFIG_HOME"),
            client_dir: path("CLAUDE_CONFIG_DIR"),
            #[cfg(feature = "service")]
            data_dir: path("XDG_DATA_HOME"),
            #[cfg(feature = "service")]
            codex_home: path("CODEX_HOME"),
            copilot_home: path("COPILOT_HOME"),
            is_unattended: is_unattended(
                std::env::var_os("CLAUDE_CODE_SESSION_ATTENDED").as_deref(),
                std::env::var_os("CLAUDE_CODE_ENTRYPOINT").as_deref(),
            ),
            internal: is_set("CLAUDE_MEM_INTERNAL"),
            file_system: std::env::var("CLAUDE_MEM_FILE_SYSTEM")
                .ok()
                .and_then(|magic| u64::from_str_radix(magic.trim_start_matches("0x"), 16).ok())
                .map(FileSystem),
            hook_debug: is_set("CLAUDE_MEM_HOOK_DEBUG"),
            #[cfg(feature = "service")]
            outgoing: Outgoing::capture(),
            overrides,
        }
    }

    /// True if systemd connected our stderr to its journal. The variable alone is not enough: a terminal inherits it from a
    /// desktop session that systemd started.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn has_journal() -> bool {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        rustix::fs::fstat(std::io::stderr())
            .is_ok_and(|stderr| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
    }

    /// True if a service manager expects readiness and watchdog notifications.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn has_manager() -> bool {
        std::env::var_os("NOTIFY_SOCKET").is_some()
    }

    /// True if `NO_COLOR` is set: the user wants no colours.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn forbids_colour() -> bool {
        std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
    }

    /// `PAGER`: the command that shows long output; `less` if it is not set, none if it is `cat` or empty, and none on a
    /// terminal without abilities.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn pager() -> Option<String> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
        (!is_dumb && !matches!(pager.trim(), "" | "cat")).then_some(pager)
    }

    /// True if `LESS` is set: the user has chosen how `less` behaves.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn has_less_options() -> bool {
        std::env::var_os("LESS").is_some()
    }

    /// True if `SSH_CONNECTION` is set: the user's browser runs on another machine.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn is_over_ssh() -> bool {
        std::env::var_os("SSH_CONNECTION").is_some_and(|value| !value.is_empty())
    }

    /// An environment with only these overrides; for tests.
    pub fn with_overrides(overrides: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { overrides: overrides.iter().map(owned).collect(), ..Self::default() }
    }
}

fn is_unattended(attended: Option<&OsStr>, entrypoint: Option<&OsStr>) -> bool {
    match attended {
        Some(attended) => attended == "0",
        None => entrypoint.is_some_and(|entrypoint| entrypoint.as_encoded_bytes().starts_with(b"sdk")),
    }
}

/// Our variables that are not settings.
const NO_SETTINGS: [&str; 4] =
    ["CLAUDE_MEM_HOME", "CLAUDE_MEM_INTERNAL", "CLAUDE_MEM_HOOK_DEBUG", "CLAUDE_MEM_FILE_SYSTEM"];

fn setting_variable((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    let is_setting = name.starts_with("CLAUDE_MEM_") && !NO_SETTINGS.contains(&name.as_str())
        || (name == ANTHROPIC_BASE_URL && !value.is_empty());
    is_setting.then(|| (name, value.to_string_lossy().into_owned()))
}
