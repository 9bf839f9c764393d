//! What is known of the user's `claude` without starting it: where it is, and whether it is logged in.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::{Environment, Outgoing};

/// Where installers put programs that the `PATH` of a service does not name; below the user's home.
const HOME_PLACES: [&str; 5] = [".local/bin", ".claude/local", ".npm-global/bin", ".bun/bin", ".volta/bin"];
/// The same, elsewhere.
const OTHER_PLACES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"];

/// Finds a program by its name or path.
pub(crate) fn find(command: &str, environment: &Environment) -> Option<PathBuf> {
    let home = environment.user_home.as_deref();
    if command.contains('/') {
        let path = match (command.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(command),
        };
        return Some(path).filter(|path| path.is_absolute() && is_program(path));
    }
    let of_path = std::env::split_paths(environment.outgoing.path.as_deref().unwrap_or(OsStr::new("")));
    let of_home = HOME_PLACES.iter().filter_map(|place| Some(home?.join(place)));
    let places = of_path.chain(of_home).chain(OTHER_PLACES.iter().map(PathBuf::from));
    places.filter(|place| place.is_absolute()).map(|place| place.join(command)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether `claude` is logged in, as far as files tell. On macOS the login itself is in the keychain, which is not asked:
/// there it counts that an account is known.
pub(super) fn is_logged_in(environment: &Environment) -> bool {
    logged_in(&environment.outgoing, environment.user_home.as_deref(), cfg!(target_os = "macos"))
}

fn logged_in(outgoing: &Outgoing, home: Option<&Path>, has_keychain: bool) -> bool {
    let moved = outgoing.claude_config_dir.clone();
    let directory = moved.clone().or_else(|| Some(home?.join(".claude")));
    let state = moved.or_else(|| Some(home?.to_owned())).map(|place| place.join(".claude.json"));
    let login = || read::<Login>(directory.map(|place| place.join(".credentials.json")));
    let account = || read::<State>(state);
    outgoing.claude_token
        || login().is_some_and(|login| login.oauth.is_some())
        || (has_keychain && account().is_some_and(|state| state.account.is_some()))
}

/// The client's file with its login.
#[derive(Deserialize)]
struct Login {
    #[serde(rename = "claudeAiOauth")]
    oauth: Option<IgnoredAny>,
}

/// The client's file with its state.
#[derive(Deserialize)]
struct State {
    #[serde(rename = "oauthAccount")]
    account: Option<IgnoredAny>,
}

fn read<T: for<'de> Deserialize<'de>>(path: Option<PathBuf>) -> Option<T> {
    serde_json::from_slice(&fs::read(path?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_found_on_the_path_then_where_installers_put_it() {
        let scratch = tempfile::tempdir().unwrap();
        let (on_path, in_home) = (scratch.path().join("bin"), scratch.path().join("home"));
        let mut environment = Environment::default();
        environment.user_home = Some(in_home.clone());
        environment.outgoing.path = Some(std::env::join_paths([Path::new("relative"), &on_path]).unwrap());
        assert_eq!(find("mem-test-claude", &environment), None);
        program(&in_home.join(".local/bin/mem-test-claude"), 0o755);
        assert_eq!(find("mem-test-claude", &environment), Some(in_home.join(".local/bin/mem-test-claude")));
        program(&on_path.join("mem-test-claude"), 0o644);
        assert_eq!(find("mem-test-claude", &environment), Some(in_home.join(".local/bin/mem-test-claude")));
        program(&on_path.join("mem-test-claude"), 0o755);
        assert_eq!(find("mem-test-claude", &environment), Some(on_path.join("mem-test-claude")));
        assert!(find("~/.local/bin/mem-test-claude", &environment).is_some());
        assert_eq!(
            find("./mem-test-claude", &environment),
            None,
            "what it is would depend on where we stand"
        );
    }

    #[test]
    fn a_login_is_seen_in_the_clients_own_files() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let here = |has_keychain| logged_in(&Outgoing::default(), Some(home.path()), has_keychain);
        assert!(!here(true));
        write(".claude.json", r#"{"numStartups":3,"oauthAccount":{"emailAddress":"a@b"}}"#);
        assert!(here(true) && !here(false));
        write(".claude/.credentials.json", r#"{"mcpOAuth":{}}"#);
        assert!(!here(false));
        write(".claude/.credentials.json", r#"{"claudeAiOauth":{"accessToken":"x"}}"#);
        assert!(here(false));
    }

    #[test]
    fn a_moved_configuration_and_a_token_count_too() {
        let home = tempfile::tempdir().unwrap();
        let moved = home.path().join("moved");
        fs::create_dir(&moved).unwrap();
        fs::write(moved.join(".credentials.json"), r#"{"claudeAiOauth":{}}"#).unwrap();
        let elsewhere = Outgoing { claude_config_dir: Some(moved), ..Outgoing::default() };
        assert!(logged_in(&elsewhere, Some(home.path()), false));
        let token = Outgoing { claude_token: true, ..Outgoing::default() };
        assert!(logged_in(&token, None, false));
        assert!(!logged_in(&Outgoing::default(), None, true));
    }
}
