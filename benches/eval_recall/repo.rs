//! The state that git would have reported at each start, from the edits and commits in the transcripts.

use std::collections::HashMap;

use claude_mem::context::RepoState;
use claude_mem::model::{SessionStamp, ToolUse};
use claude_mem::project::without_worktree;
use serde_json::Value;

use crate::history::within;

/// As many commits as the worker asks git for.
const COMMITS: usize = 3;

/// The working trees of a project.
#[derive(Default)]
pub struct Repo {
    trees: HashMap<String, Tree>,
}

/// One working tree, named by its directory.
#[derive(Default)]
struct Tree {
    /// Files that differ from the last commit, with the session that changed them.
    changed: Vec<(String, String)>,
    /// Subjects and files of the last commits, newest first.
    commits: Vec<(String, Vec<String>)>,
    branch: Option<String>,
}

impl Repo {
    /// Takes note of the branch. Changes rarely survive a checkout.
    pub fn check_out(&mut self, session: &SessionStamp, root: &str) {
        let tree = self.trees.entry(directory(&session.cwd, root)).or_default();
        if tree.branch != session.branch {
            tree.changed.clear();
            tree.branch.clone_from(&session.branch);
        }
    }

    /// Takes note of an edit or a commit.
    pub fn record(&mut self, session: &SessionStamp, tool: &ToolUse, payload: &Value, root: &str) {
        if tool.failed {
            return;
        }
        let input = &payload["tool_input"];
        match tool.tool_name.as_deref().unwrap_or_default() {
            "Edit" | "Write" | "MultiEdit" => {
                let Some(path) = input["file_path"].as_str() else { return };
                let Some(file) = within(path, root) else { return };
                let tree = self.trees.entry(tree_of(path, &file)).or_default();
                tree.changed.retain(|(known, _)| *known != file);
                tree.changed.insert(0, (file, session.id.as_str().to_owned()));
            }
            "Bash" => {
                let output = payload["tool_response"]["stdout"].as_str();
                let output = output.or_else(|| payload["tool_response"].as_str()).unwrap_or_default();
                for subject in output.lines().filter_map(committed) {
                    let tree = self.trees.entry(directory(&session.cwd, root)).or_default();
                    tree.commit(session.id.as_str(), subject);
                }
            }
            _ => {}
        }
    }

    /// The state of the session's working tree.
    pub fn state(&self, session: &SessionStamp, root: &str) -> RepoState {
        let branch = session.branch.clone();
        let Some(tree) = self.trees.get(&directory(&session.cwd, root)) else {
            return RepoState { branch, ..RepoState::default() };
        };
        RepoState {
            branch,
            changed_files: tree.changed.iter().map(|(file, _)| file.clone()).collect(),
            committed_files: tree.commits.iter().flat_map(|(_, files)| files.iter().cloned()).collect(),
            commits: tree.commits.iter().map(|(subject, _)| subject.clone()).collect(),
        }
    }
}

impl Tree {
    /// Sessions commit their own changes.
    fn commit(&mut self, session: &str, subject: &str) {
        let (own, others) = std::mem::take(&mut self.changed).into_iter().partition(|(_, by)| by == session);
        self.changed = others;
        let own: Vec<(String, String)> = own;
        self.commits.insert(0, (subject.to_owned(), own.into_iter().map(|(file, _)| file).collect()));
        self.commits.truncate(COMMITS);
    }
}

/// The subject of `[branch 1a2b3c4] Subject`.
fn committed(line: &str) -> Option<&str> {
    let (head, subject) = line.trim().strip_prefix('[')?.split_once("] ")?;
    let id = head.rsplit(' ').next().filter(|id| id.len() >= 7 && head.len() > id.len())?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(subject)
}

/// The directory of the working tree that has a file.
fn tree_of(path: &str, file: &str) -> String {
    path.strip_suffix(file).unwrap_or(path).trim_end_matches('/').to_owned()
}

/// The directory of the working tree that a session works in.
fn directory(cwd: &str, root: &str) -> String {
    let below = cwd.strip_prefix(root).unwrap_or_default().trim_start_matches('/');
    // A marker stands for a file, so that the name of the worktree is cut off by the same rule.
    let marked = format!("{below}/file");
    let inside = without_worktree(marked.trim_start_matches('/'));
    let tree = marked.trim_start_matches('/').strip_suffix(inside).unwrap_or_default();
    format!("{root}/{tree}").trim_end_matches('/').to_owned()
}
