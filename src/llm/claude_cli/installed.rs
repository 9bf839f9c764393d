//! Finds the user's `claude` and its login without starting it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::{Environment, Outgoing};
use crate::paths::Home;

/// Directories below the user's home where installers put programs and that are not in a service's
/// `PATH`.
const HOME_PLACES: [&str; 8] = [
    ".local/bin",
    ".claude/local",
    ".npm-global/bin",
    ".bun/bin",
    ".volta/bin",
    ".asdf/shims",
    ".local/share/mise/shims",
    ".nix-profile/bin",
];
/// Directories with one subdirectory per version of node, and the location of the programs below
/// that.
const VERSIONED_PLACES: [(&str, &str); 4] = [
    (".nvm/versions/node", "bin"),
    (".local/share/fnm/node-versions", "installation/bin"),
    (".fnm/node-versions", "installation/bin"),
    (".asdf/installs/nodejs", "bin"),
];
/// Other such directories.
const OTHER_PLACES: [&str; 5] = [
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
    "/nix/var/nix/profiles/default/bin",
];

/// Finds the client as [`find`] does, else where `install` found it: a version manager's
/// directories are in the shell's `PATH` and not in a service's.
pub(crate) fn find_client(command: &str, environment: &Environment, home: &Home) -> Option<PathBuf> {
    let recorded = || {
        let path = PathBuf::from(fs::read_to_string(home.client_path()).ok()?.trim());
        (!command.contains('/') && path.is_absolute() && is_program(&path)).then_some(path)
    };
    recorded().or_else(|| find(command, environment))
}

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
    let of_versions = || home.into_iter().flat_map(versioned_places);
    let places = of_path.chain(of_home).chain(OTHER_PLACES.iter().map(PathBuf::from)).chain(of_versions());
    places.filter(|place| place.is_absolute()).map(|place| place.join(command)).find(|path| is_program(path))
}

/// Returns the program directories of every version of node, last modified first.
fn versioned_places(home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, below) in VERSIONED_PLACES {
        let versions = fs::read_dir(home.join(folder)).into_iter().flatten().flatten();
        found.extend(versions.map(|version| {
            (version.metadata().and_then(|meta| meta.modified()).ok(), version.path().join(below))
        }));
    }
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, place)| place).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// True if `claude` is logged in, judging by its files. On macOS the login itself is in the
/// keychain, which is not queried: there a known account counts.
pub(in crate::llm) fn is_logged_in(environment: &Environment) -> bool {
    logged_in(&environment.outgoing, environment.user_home.as_deref(), cfg!(target_os = "macos"))
}

fn logged_in(outgoing: &Outgoing, home: Option<&Path>, has_keychain: bool) -> bool {
    let moved = outgoing.claude_config_dir.clone();
    let directory = moved.clone().or_else(|| Some(home?.join(".claude")));
    let state = moved.or_else(|| Some(home?.to_owned())).map(|place| place.join(".claude.json"));
    let login = || read::<Login>(directory.map(|place| place.join(".credentials.json")));
    let account = || read::<ClientState>(state);
    outgoing.claude_token
        || login().is_some_and(|login| login.oauth.is_some())
        || (has_keychain && account().is_some_and(|state| state.account.is_some()))
}

/// The client's credentials file.
#[derive(Deserialize)]
struct Login {
    #[serde(rename = "claudeAiOauth")]
    oauth: Option<IgnoredAny>,
}

/// The client's state file.
#[derive(Deserialize)]
struct ClientState {
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
    #[allow(clippy::field_reassign_with_default, reason = "a field is private")]
    fn a_version_managers_client_is_found_by_install_or_by_search() {
        let scratch = tempfile::tempdir().unwrap();
        let mut environment = Environment::default();
        environment.user_home = Some(scratch.path().to_owned());
        environment.outgoing.path = None;
        let home = Home::at(scratch.path().join("mem"));
        let name = "claude-of-a-version-manager";
        assert_eq!(find_client(name, &environment, &home), None);
        let by_looking = scratch.path().join(".nvm/versions/node/v22.1.0/bin").join(name);
        program(&by_looking, 0o755);
        assert_eq!(find_client(name, &environment, &home), Some(by_looking.clone()));
        let seen = scratch.path().join("odd/place/claude");
        program(&seen, 0o755);
        fs::create_dir_all(home.dir()).unwrap();
        fs::write(home.client_path(), format!("{}\n", seen.display())).unwrap();
        assert_eq!(find_client(name, &environment, &home), Some(seen.clone()));
        fs::remove_file(seen).unwrap();
        assert_eq!(find_client(name, &environment, &home), Some(by_looking));
    }

    #[test]
    fn a_program_is_found_on_path_then_in_install_directories() {
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
            "a relative path would depend on the working directory"
        );
    }

    #[test]
    fn a_login_is_detected_in_the_clients_files() {
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
    fn a_moved_configuration_and_a_token_count_as_login() {
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
