//! API keys and their sources. Keys are never arguments, never settings, and never shown.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::{Outgoing, Secret};
use crate::paths::Home;

/// The keys that were found.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// For Anthropic's API.
    pub anthropic: Option<Secret>,
    /// For an OpenAI-compatible endpoint.
    pub openai: Option<Secret>,
    /// The reason why the user's file was not used; relevant only if a key is missing.
    pub problem: Option<CredentialsProblem>,
}

/// The reason why a credentials file is not used. Never contains the file's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsProblem {
    /// Other users can read the keys.
    #[error("other users can read {path}: run `chmod 600` on it and consider replacing the keys")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// Another user owns the file and could have put keys there.
    #[error("{path} belongs to another user")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A line that cannot be parsed.
    #[error("{path}:{line}: expected ANTHROPIC_API_KEY=… or OPENAI_API_KEY=…")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An error of the operating system.
    #[error("cannot read {path}: {message}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error message.
        message: String,
    },
}

impl Credentials {
    /// Finds the keys, each in the first source that has it: the environment, the file
    /// `credentials` in the data directory, systemd.
    pub fn find(home: &Home, outgoing: &Outgoing) -> Self {
        let path = home.credentials();
        let (mut from_file, problem) = match read_private(&path).and_then(|text| parse(&path, &text)) {
            Ok(found) => (found, None),
            Err(problem) => (Self::default(), Some(problem)),
        };
        let from_systemd = |name: &str| {
            let text = std::fs::read_to_string(outgoing.credentials_directory.as_ref()?.join(name)).ok()?;
            Secret::new(&text)
        };
        Self {
            anthropic: outgoing
                .anthropic_key
                .clone()
                .or_else(|| from_file.anthropic.take())
                .or_else(|| from_systemd("anthropic_api_key")),
            openai: outgoing
                .openai_key
                .clone()
                .or_else(|| from_file.openai.take())
                .or_else(|| from_systemd("openai_api_key")),
            problem,
        }
    }
}

/// Reads a file that only we can read; empty if there is none. Checks the open file, so that it
/// cannot be exchanged in between.
fn read_private(path: &Path) -> Result<String, CredentialsProblem> {
    let unreadable = |error: io::Error| CredentialsProblem::Unreadable {
        path: path.to_owned(),
        message: error.kind().to_string(),
    };
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        other => other.map_err(unreadable)?,
    };
    let meta = file.metadata().map_err(unreadable)?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(CredentialsProblem::Foreign { path: path.to_owned() });
    }
    if meta.mode() & 0o077 != 0 {
        return Err(CredentialsProblem::Exposed { path: path.to_owned() });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Parses lines of `NAME=value` in shell or TOML syntax: with or without spaces, quotes, `export`,
/// and comments.
fn parse(path: &Path, text: &str) -> Result<Credentials, CredentialsProblem> {
    let mut found = Credentials::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || CredentialsProblem::Line { path: path.to_owned(), line: index + 1 };
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let secret = Secret::new(unquoted(value.trim()));
        match name.trim().trim_start_matches("export ").trim().to_ascii_lowercase().as_str() {
            "anthropic_api_key" => found.anthropic = secret,
            "openai_api_key" => found.openai = secret,
            _ => return Err(wrong()),
        }
    }
    Ok(found)
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default();
        }
    }
    // A comment after an unquoted value needs a space before it: a key may contain '#'.
    value.split(" #").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: &str = "sk-ant-of-the-file";

    fn find(text: &str, mode: u32, outgoing: &Outgoing) -> Credentials {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("credentials");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        Credentials::find(&Home::at(scratch.path()), outgoing)
    }

    fn text(secret: &Option<Secret>) -> Option<&str> {
        secret.as_ref().map(Secret::expose)
    }

    #[test]
    fn sources_are_tried_in_order_environment_file_systemd() {
        let systemd = tempfile::tempdir().unwrap();
        fs::write(systemd.path().join("anthropic_api_key"), "of-systemd\n").unwrap();
        fs::write(systemd.path().join("openai_api_key"), "other-of-systemd").unwrap();
        let mut outgoing =
            Outgoing { credentials_directory: Some(systemd.path().to_owned()), ..Outgoing::default() };
        let file = format!("ANTHROPIC_API_KEY={KEY}\n");
        let found = find(&file, 0o600, &outgoing);
        assert_eq!((text(&found.anthropic), text(&found.openai)), (Some(KEY), Some("other-of-systemd")));
        assert_eq!(text(&find("", 0o600, &outgoing).anthropic), Some("of-systemd"));
        outgoing.anthropic_key = Secret::new("of-the-environment");
        assert_eq!(text(&find(&file, 0o600, &outgoing).anthropic), Some("of-the-environment"));
    }

    #[test]
    fn the_file_accepts_shell_and_toml_syntax() {
        let ways = [
            "ANTHROPIC_API_KEY=@",
            "# mine\n\nexport ANTHROPIC_API_KEY='@'",
            "anthropic_api_key = \"@\"  # TOML",
            "  ANTHROPIC_API_KEY = @ # shell\r\nOPENAI_API_KEY=",
        ];
        for way in ways {
            let found = find(&way.replace('@', KEY), 0o600, &Outgoing::default());
            assert_eq!(
                (text(&found.anthropic), found.openai, found.problem),
                (Some(KEY), None, None),
                "{way}"
            );
        }
    }

    #[test]
    fn a_file_readable_by_others_is_rejected_with_a_remedy() {
        for mode in [0o640, 0o604, 0o666] {
            let found = find(&format!("ANTHROPIC_API_KEY={KEY}"), mode, &Outgoing::default());
            assert_eq!(found.anthropic, None);
            assert!(found.problem.unwrap().to_string().contains("chmod 600"));
        }
    }

    #[test]
    fn an_error_names_the_line_and_never_its_content() {
        for text in [format!("\n{KEY}"), format!("\nMY_KEY={KEY}")] {
            let problem = find(&text, 0o600, &Outgoing::default()).problem.unwrap();
            let shown = format!("{problem} {problem:?}");
            assert!(shown.contains("credentials:2: expected ANTHROPIC_API_KEY"), "{shown}");
            assert!(!shown.contains(KEY) && !shown.contains("MY_KEY"), "{shown}");
        }
        let binary = tempfile::tempdir().unwrap();
        let file = binary.path().join("credentials");
        fs::write(&file, [0xff, 0xfe]).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let problem = Credentials::find(&Home::at(binary.path()), &Outgoing::default()).problem;
        assert!(matches!(problem, Some(CredentialsProblem::Unreadable { .. })), "{problem:?}");
    }

    #[test]
    fn a_missing_file_is_not_a_problem() {
        let scratch = tempfile::tempdir().unwrap();
        let found = Credentials::find(&Home::at(scratch.path()), &Outgoing::default());
        assert_eq!((found.anthropic, found.problem), (None, None));
    }
}
