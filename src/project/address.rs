//! Derives a key from the address of a repository's `origin` remote, the same for every clone on
//! every machine. Reads git's configuration files without running git.

use std::path::{Path, PathBuf};

use super::{find_repository, read_small, resolve};

/// Maximum local remotes to follow: a clone of a clone of a clone on the same disk.
const MAX_HOPS: usize = 4;

/// Hosts that treat `Owner/Repo` and `owner/repo` as the same repository.
const CASELESS_HOSTS: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// Returns the key of the repository with that shared git directory and main worktree.
pub fn key(common: &Path, main: &Path) -> String {
    let (mut common, mut main) = (common.to_owned(), main.to_owned());
    for _ in 0..MAX_HOPS {
        match origin(&common).map(|url| RemoteAddress::of(&url, &main)) {
            Some(RemoteAddress::Remote(address)) => return format!("git:{address}"),
            Some(RemoteAddress::Local(path)) if path != main => match repository(&path) {
                Some((next_common, next_main)) if next_main != main => {
                    (common, main) = (next_common, next_main)
                }
                _ => return path_key(&path),
            },
            _ => break,
        }
    }
    path_key(&main)
}

/// Returns the key of a directory without a remote.
pub fn path_key(path: &Path) -> String {
    format!("path:{}", path.to_string_lossy())
}

/// Returns the shared git directory and main worktree of the repository at exactly that path.
fn repository(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let path = std::fs::canonicalize(path).ok()?;
    let found = find_repository(&path).filter(|found| found.main == path || found.root == path)?;
    Some((found.common, found.main))
}

/// Returns the first `url` of `[remote "origin"]`.
fn origin(common: &Path) -> Option<String> {
    let config = read_small(&common.join("config"))?;
    let mut is_origin = false;
    for line in config.lines() {
        let mut line = line.trim_start();
        if line.starts_with('[') {
            let (section, rest) = line.split_once(']')?;
            is_origin = is_origin_section(section);
            line = rest.trim_start();
        }
        if !is_origin {
            continue;
        }
        if let Some((name, value)) = line.split_once('=')
            && name.trim_end().eq_ignore_ascii_case("url")
        {
            return Some(unquoted(value)).filter(|url| !url.is_empty());
        }
    }
    None
}

fn is_origin_section(section: &str) -> bool {
    let Some((name, subsection)) = section[1..].trim().split_once(char::is_whitespace) else { return false };
    name.eq_ignore_ascii_case("remote") && subsection.trim() == "\"origin\""
}

/// Strips the comment and the quotes from a value.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    match value.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((quoted, _)) => quoted.to_owned(),
        None => {
            let end = value.find([';', '#']).filter(|at| value[..*at].ends_with(char::is_whitespace));
            end.map_or(value, |at| &value[..at]).trim_end().to_owned()
        }
    }
}

/// Location of a remote.
#[derive(Debug, PartialEq, Eq)]
enum RemoteAddress {
    /// On a host: `host/owner/repo`.
    Remote(String),
    /// On this machine.
    Local(PathBuf),
}

impl RemoteAddress {
    fn of(url: &str, main: &Path) -> Self {
        if let Some((scheme, rest)) = url.split_once("://") {
            if scheme.eq_ignore_ascii_case("file") {
                return Self::local(rest.strip_prefix("localhost").unwrap_or(rest), main);
            }
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            return Self::remote(host_of(authority), path.split(['?', '#']).next().unwrap_or_default());
        }
        // `host:path` is a remote, unless a slash comes before the colon.
        match url.split_once(':') {
            Some((authority, path)) if !authority.contains('/') && !authority.is_empty() => {
                Self::remote(host_of(authority), path)
            }
            _ => Self::local(url, main),
        }
    }

    fn remote(host: &str, path: &str) -> Self {
        let host = host.to_ascii_lowercase();
        // Names under which some hosts serve ssh on port 443.
        let host = ["ssh.", "altssh.", "www."]
            .iter()
            .find_map(|prefix| host.strip_prefix(prefix).filter(|rest| rest.contains('.')).map(str::to_owned))
            .unwrap_or(host);
        let path = path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let path = path.strip_suffix(".git").unwrap_or(&path);
        let is_caseless = CASELESS_HOSTS.contains(&host.as_str());
        Self::Remote(if is_caseless {
            format!("{host}/{}", path.to_lowercase())
        } else {
            format!("{host}/{path}")
        })
    }

    fn local(path: &str, main: &Path) -> Self {
        let path = resolve(main, path);
        Self::Local(std::fs::canonicalize(&path).unwrap_or(path))
    }
}

/// Returns the host of `user:password@host:port`.
fn host_of(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str) -> String {
        match RemoteAddress::of(url, Path::new("/w/app")) {
            RemoteAddress::Remote(address) => address,
            RemoteAddress::Local(path) => format!("local {}", path.display()),
        }
    }

    #[test]
    fn all_spellings_of_an_address_give_one_key() {
        for url in [
            "https://github.com/acme/billing.git",
            "https://github.com/acme/billing",
            "https://github.com/acme/billing/",
            "https://GitHub.com/Acme/Billing.git",
            "https://www.github.com/acme/billing",
            "https://token:x-oauth-basic@github.com:443/acme/billing.git",
            "http://github.com//acme/billing.git",
            "git@github.com:acme/billing.git",
            "git@github.com:/acme/billing.git",
            "github.com:acme/billing",
            "ssh://git@github.com/acme/billing.git",
            "ssh://git@ssh.github.com:443/acme/billing.git",
            "git://github.com/acme/billing.git",
            "https://github.com/acme/billing.git?token=x#y",
        ] {
            assert_eq!(remote(url), "github.com/acme/billing", "{url}");
        }
        assert_eq!(remote("ssh://git@[::1]:2222/srv/Billing.git"), "::1/srv/Billing");
        assert_eq!(remote("git@git.example.org:team/sub/App.git"), "git.example.org/team/sub/App");
    }

    #[test]
    fn paths_are_not_hosts() {
        for (url, path) in [
            ("/srv/git/billing.git", "/srv/git/billing.git"),
            ("file:///srv/git/billing.git", "/srv/git/billing.git"),
            ("../billing", "/w/billing"),
            ("./a:b/c", "/w/app/a:b/c"),
        ] {
            assert_eq!(remote(url), format!("local {path}"));
        }
    }

    #[test]
    fn origin_is_parsed_as_by_git() {
        let scratch = tempfile::tempdir().unwrap();
        for (config, url) in [
            (
                "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a/b\n\tfetch = x\n",
                Some("https://a/b"),
            ),
            ("[Remote \"origin\"]\nURL=\"https://a/b\" ; why\n", Some("https://a/b")),
            ("[remote \"origin\"] url = https://a/b # why\n", Some("https://a/b")),
            ("[remote \"upstream\"]\nurl = https://a/b\n[branch \"main\"]\nremote = origin\n", None),
            ("[remote \"Origin\"]\nurl = https://a/b\n", None),
            ("[remote \"origin\"]\npushurl = https://a/b\n", None),
            ("[remote \"origin\n", None),
            ("", None),
        ] {
            std::fs::write(scratch.path().join("config"), config).unwrap();
            assert_eq!(origin(scratch.path()).as_deref(), url, "{config}");
        }
    }
}
