//! The part of the environment that outgoing connections need: keys, proxies, and where programs are installed.
//!
//! The hook makes no connections and is built without it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A value that must never be printed: it has no `Display`, and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The trimmed text as a secret; `None` if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The secret itself, for use in a header only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of the secret in a text.
    pub fn scrub(&self, text: String) -> String {
        // A very short "key" is a placeholder: replacing it everywhere would garble the text and protect nothing.
        if self.0.len() < 8 || !text.contains(&self.0) { text } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[secret]")
    }
}

/// Keys, proxies and paths from the environment, read once.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// `ANTHROPIC_API_KEY`.
    pub anthropic_key: Option<Secret>,
    /// `OPENAI_API_KEY`.
    pub openai_key: Option<Secret>,
    /// `CREDENTIALS_DIRECTORY`: where systemd puts the files that LoadCredential= names.
    pub credentials_directory: Option<PathBuf>,
    /// The proxies.
    pub proxies: Proxies,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `CLAUDE_CONFIG_DIR`: where the client keeps its own files.
    pub claude_config_dir: Option<PathBuf>,
    /// True if `CLAUDE_CODE_OAUTH_TOKEN` is set: it logs the client in.
    pub claude_token: bool,
    /// True if `INVOCATION_ID` is set: systemd started this process or its parent.
    pub supervised: bool,
    /// The names of all variables, so that some can be passed on to child processes.
    pub names: Vec<String>,
}

/// Proxies from the usual variables. A proxy's address may contain a password.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// `https_proxy` or `HTTPS_PROXY`.
    pub https: Option<Secret>,
    /// `http_proxy` or `HTTP_PROXY`.
    pub http: Option<Secret>,
    /// `all_proxy` or `ALL_PROXY`.
    pub all: Option<Secret>,
    /// `no_proxy` or `NO_PROXY`: hosts that are reached directly.
    pub none_for: Option<String>,
}

impl Outgoing {
    /// The value of one of our variables, for a process that does not inherit them.
    #[allow(clippy::disallowed_methods, reason = "this is config")]
    pub fn value_of(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Reads the process's environment.
    #[allow(clippy::disallowed_methods, reason = "part of config, the one place that reads the environment")]
    pub(super) fn capture() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let secret = |name: &str| text(name).as_deref().and_then(Secret::new);
        let either = |name: &str| secret(name).or_else(|| secret(&name.to_ascii_uppercase()));
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            anthropic_key: secret("ANTHROPIC_API_KEY"),
            openai_key: secret("OPENAI_API_KEY"),
            credentials_directory: path("CREDENTIALS_DIRECTORY"),
            proxies: Proxies {
                https: either("https_proxy"),
                http: either("http_proxy"),
                all: either("all_proxy"),
                none_for: text("no_proxy").or_else(|| text("NO_PROXY")),
            },
            path: std::env::var_os("PATH"),
            claude_config_dir: path("CLAUDE_CONFIG_DIR"),
            claude_token: text("CLAUDE_CODE_OAUTH_TOKEN").is_some(),
            supervised: text("INVOCATION_ID").is_some(),
            names: std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let outgoing = Outgoing {
            anthropic_key: Secret::new(" sk-ant-visible\n"),
            proxies: Proxies { https: Secret::new("http://me:visible@proxy:3128"), ..Proxies::default() },
            ..Outgoing::default()
        };
        assert!(!format!("{outgoing:?} {outgoing:#?}").contains("visible"));
        assert_eq!(outgoing.anthropic_key.unwrap().expose(), "sk-ant-visible");
        assert_eq!(Secret::new(" \n"), None);
    }

    #[test]
    fn scrub_removes_a_secret_from_text() {
        let secret = Secret::new("sk-ant-visible").unwrap();
        assert_eq!(secret.scrub("bad key sk-ant-visible.".into()), "bad key [key].");
        assert_eq!(Secret::new("x").unwrap().scrub("maximum".into()), "maximum");
    }
}
