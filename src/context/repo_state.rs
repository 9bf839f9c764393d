//! The present state of a project, as far as it is known, and the question that follows from it.

use super::words::content_words;
use crate::store::context::SessionLine;

/// The state of the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepoState {
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// Files that differ from the last commit.
    pub changed_files: Vec<String>,
    /// Files of the last commits.
    pub committed_files: Vec<String>,
    /// Subjects of the last commits, newest first.
    pub commits: Vec<String>,
}

/// The words and files to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelevanceQuery {
    /// Words, the most wording first.
    pub words: Vec<String>,
    /// Files that differ from the last commit.
    pub changed_files: Vec<String>,
    /// These, and the files of the last commits.
    pub files: Vec<String>,
    /// The session whose work goes on.
    pub continues: Option<String>,
}

/// More words than this make search slow and no better.
const MOST_WORDS: usize = 14;
const MOST_FILES: usize = 40;

/// Parts of a branch's name that give its kind, not its topic.
const KINDS_OF_BRANCH: [&str; 27] = [
    "main",
    "master",
    "develop",
    "dev",
    "trunk",
    "head",
    "next",
    "staging",
    "stable",
    "production",
    "prod",
    "preview",
    "nightly",
    "canary",
    "edge",
    "beta",
    "alpha",
    "integration",
    "feature",
    "feat",
    "fix",
    "bugfix",
    "hotfix",
    "chore",
    "release",
    "wip",
    "branch",
];

/// True if the branch's name has a topic.
pub fn is_topic(branch: &str) -> bool {
    !topic_words(branch).is_empty()
}

fn topic_words(branch: &str) -> Vec<String> {
    let words = content_words(&branch.replace(['_', '-', '/'], " "));
    words.into_iter().filter(|word| !KINDS_OF_BRANCH.contains(&word.as_str())).collect()
}

impl RelevanceQuery {
    /// The question of a repo_state. `sessions` are the latest of the project, newest first.
    pub fn of(repo_state: &RepoState, sessions: &[SessionLine]) -> Self {
        let mut question = Self::default();
        question.add(repo_state.branch.as_deref().map(topic_words).unwrap_or_default(), 4);
        question.continues = before_now(repo_state, sessions).next().map(|session| session.id.clone());
        for session in before_now(repo_state, sessions) {
            question.add(content_words(&session.open_items.join(" ")), 6);
            question.add(content_words(session.title.as_deref().unwrap_or_default()), 5);
        }
        for subject in repo_state.commits.iter().take(2) {
            question.add(content_words(subject), 3);
        }
        for file in repo_state.changed_files.iter().take(3) {
            question.add(content_words(stem(file)), 2);
        }
        let files = repo_state.changed_files.iter().chain(&repo_state.committed_files).take(MOST_FILES);
        question.files = files.cloned().collect();
        question.changed_files.clone_from(&repo_state.changed_files);
        question
    }

    fn add(&mut self, words: Vec<String>, most: usize) {
        let mut added = 0;
        for word in words {
            if added < most && self.words.len() < MOST_WORDS && !self.words.contains(&word) {
                self.words.push(word);
                added += 1;
            }
        }
    }
}

/// The session whose work goes on: the last one, and the last one of this branch if that is another.
fn before_now<'a>(
    repo_state: &'a RepoState,
    sessions: &'a [SessionLine],
) -> impl Iterator<Item = &'a SessionLine> {
    let of_branch = continued(repo_state, sessions);
    of_branch
        .into_iter()
        .chain(sessions.first().filter(move |last| of_branch.is_none_or(|it| it.id != last.id)))
}

/// The last session of the branch that is checked out, if that is about something in particular.
pub fn continued<'a>(repo_state: &RepoState, sessions: &'a [SessionLine]) -> Option<&'a SessionLine> {
    let branch = repo_state.branch.as_deref().filter(|branch| is_topic(branch))?;
    sessions.iter().find(|session| session.branch.as_deref() == Some(branch))
}

/// A file's name without folders and ending.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_speaks_by_what_it_is_about() {
        assert_eq!(topic_words("feature/login-rate_limit"), ["login", "rate", "limit"]);
        assert!(
            !is_topic("main")
                && !is_topic("next")
                && !is_topic("release/2026.1")
                && is_topic("fix/upload-retry")
        );
    }

    #[test]
    fn the_session_of_the_branch_comes_before_the_last_one() {
        let session = |id: &str, branch: &str, next: &str| SessionLine {
            id: id.into(),
            branch: Some(branch.into()),
            open_items: vec![next.into()],
            ..SessionLine::default()
        };
        let sessions =
            [session("b", "main", "write the changelog"), session("a", "fix/retry", "limit the attempts")];
        let repo_state = RepoState { branch: Some("fix/retry".into()), ..RepoState::default() };
        assert_eq!(
            RelevanceQuery::of(&repo_state, &sessions).words,
            ["retry", "limit", "attempts", "write", "changelog"]
        );
    }
}
