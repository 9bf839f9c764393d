//! Branches, the commits of the default branch, and renames, from git.
//!
//! A few bounded calls, in the background of a session's start. What git cannot show completely is marked as such.

use std::collections::HashMap;
use std::path::Path;

use super::{GitSettings, Printed, git};
use crate::model::Millis;
use crate::store::memory::branches::{BranchCommit, Survey, Tip};

/// Maximum bytes of the default branch's log: some ten thousand commits.
const LOG_BYTES: u64 = 8 << 20;
const MOST_COMMITS: &str = "--max-count=10000";
/// Maximum bytes of the list of branches, and of that of renames.
const LIST_BYTES: u64 = 1 << 20;
const MOST_RENAMING: &str = "--max-count=2000";
/// Names of default branches where no remote says which one it is.
const USUAL: [&str; 4] = ["main", "master", "trunk", "develop"];

/// Describes the repository of the worktree at `root`, with the commits since a time. `None` if git does not answer.
pub fn survey(root: &Path, since: Millis) -> Option<Survey> {
    let settings = GitSettings::harmless();
    let ask = |most: u64, arguments: &[&str]| {
        let printed = Printed::within(most, git(root, &settings, arguments));
        (String::from_utf8_lossy(&printed.bytes).into_owned(), printed.is_whole)
    };
    let format = "--format=%(refname) %(objectname) %(committerdate:unix)";
    let (refs, is_whole) = ask(LIST_BYTES, &["for-each-ref", format, "refs/heads", "refs/remotes"]);
    if refs.is_empty() {
        return None;
    }
    let head = ask(LIST_BYTES, &["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]).0;
    let branches: Vec<Tip> = refs.lines().filter_map(tip).collect();
    let default = default_branch(head.trim(), &branches);
    let mut survey = Survey { default, branches, commits: Vec::new(), is_complete: false };
    if let Some(default) = &survey.default {
        let is_shallow = ask(LIST_BYTES, &["rev-parse", "--is-shallow-repository"]).0.trim() != "false";
        // The remote may be ahead of the local branch, or the other way round.
        let tips: Vec<String> = survey
            .branches
            .iter()
            .filter(|tip| tip.branch == *default)
            .map(|tip| tip.commit.clone())
            .collect();
        let since = format!("--since=@{}", since.max(0) / 1000);
        let log = [
            "log",
            &since,
            MOST_COMMITS,
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--no-ext-diff",
            "-z",
            "--format=%x01%H %at %ct %s",
        ];
        let arguments: Vec<&str> = log.into_iter().chain(tips.iter().map(String::as_str)).collect();
        let (log, is_log_whole) = ask(LOG_BYTES, &arguments);
        survey.commits = log.split('\u{1}').filter_map(commit).collect();
        survey.is_complete = is_whole && is_log_whole && !is_shallow;
    }
    Some(survey)
}

/// Files that commits renamed, from the old path to the latest new one. `None` if git did not answer.
pub fn renames(root: &Path) -> Option<HashMap<String, String>> {
    let arguments =
        ["log", MOST_RENAMING, "--diff-filter=R", "-M", "--name-status", "--no-ext-diff", "-z", "--format="];
    let printed = Printed::within(LIST_BYTES, git(root, &GitSettings::harmless(), &arguments));
    let has_answer = printed.is_whole || !printed.bytes.is_empty();
    has_answer.then(|| renamed(&String::from_utf8_lossy(&printed.bytes)))
}

/// `R100`, the old path and the new path, each followed by a NUL; the latest first.
fn renamed(log: &str) -> HashMap<String, String> {
    let mut words = log.split('\0').map(|word| word.trim_start_matches('\n'));
    let mut renames = HashMap::new();
    while let Some(word) = words.next() {
        if word.len() == 4
            && word.starts_with('R')
            && word[1..].bytes().all(|byte| byte.is_ascii_digit())
            && let (Some(old), Some(new)) = (words.next(), words.next())
        {
            renames.entry(old.to_owned()).or_insert_with(|| new.to_owned());
        }
    }
    renames
}

/// `refs/heads/topic 1a2b… 1700000000`; a remote's name is not part of the branch's.
fn tip(line: &str) -> Option<Tip> {
    let mut words = line.rsplitn(3, ' ');
    let (at, commit, name) = (words.next()?, words.next()?, words.next()?);
    let branch = match name.strip_prefix("refs/heads/") {
        Some(branch) => branch,
        None => name.strip_prefix("refs/remotes/")?.split_once('/')?.1,
    };
    let at: Millis = at.parse().ok()?;
    (branch != "HEAD").then(|| Tip { branch: branch.to_owned(), commit: commit.to_owned(), at: at * 1000 })
}

/// The remote's default branch, else the usual one that exists.
fn default_branch(head: &str, branches: &[Tip]) -> Option<String> {
    let exists = |name: &str| branches.iter().any(|tip| tip.branch == name);
    let of_remote = head.strip_prefix("refs/remotes/origin/").filter(|name| exists(name));
    of_remote.or_else(|| USUAL.into_iter().find(|name| exists(name))).map(str::to_owned)
}

/// A commit: its line, then NUL-separated `:mode mode old-blob new-blob X` and path.
fn commit(text: &str) -> Option<BranchCommit> {
    let mut parts = text.split('\0');
    let line = parts.next()?;
    let mut words = line.splitn(4, ' ');
    let (id, authored, committed) = (words.next()?, words.next()?, words.next()?);
    let subject = words.next().unwrap_or_default().trim_end().to_owned();
    let mut files = Vec::new();
    while let (Some(raw), Some(path)) = (parts.next(), parts.next()) {
        let blob = raw.trim_start_matches('\n').split(' ').nth(3);
        files.extend(blob.map(|blob| (path.to_owned(), blob.to_owned())));
    }
    Some(BranchCommit {
        id: id.to_owned(),
        authored_at: authored.parse::<Millis>().ok()? * 1000,
        committed_at: committed.parse::<Millis>().ok()? * 1000,
        subject,
        files,
    })
}

#[cfg(test)]
mod tests;
