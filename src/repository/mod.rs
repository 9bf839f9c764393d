//! The state of a repository, from git: the files that differ from the last commit, the last commits, and its branches.
//!
//! The worker and the command line run git; the hook starts no process. An untrusted repository brings its own settings,
//! which can name programs for git to run: `git` below runs none of them. Callers wait only briefly: an answer that comes
//! late serves the next session.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use crate::anchors::{FileStates, WorkingTree};
use crate::context::RepoState;

pub mod survey;

/// The last known state of each repository.
#[derive(Debug, Default)]
pub struct Repositories {
    known: Mutex<HashMap<PathBuf, KnownState>>,
    files: Arc<FileStates>,
    surveyed: Mutex<HashMap<PathBuf, Surveyed>>,
    refreshing: Mutex<HashSet<PathBuf>>,
}

/// A worktree that was surveyed, or is being surveyed.
#[derive(Debug)]
struct Surveyed {
    at: Instant,
    renames: Arc<HashMap<String, String>>,
}

/// Minimum time between two surveys of a worktree.
const SURVEY_HOLDS: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct KnownState {
    repo_state: RepoState,
    /// The state of HEAD when the commits were read.
    head: Option<Head>,
    is_asked: bool,
    /// The time of git's last answer.
    answered: Option<Instant>,
}

/// Length and modification time of `.git/logs/HEAD`, which grows with every commit and checkout.
type Head = (u64, SystemTime);

/// Maximum run time of git. An answer that takes longer is not expected to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes read of git's output.
const MOST_BYTES: u64 = 256 << 10;
const MOST_FILES: usize = 60;
const COMMITS: &str = "3";
/// Maximum number of repositories remembered; beyond it the worker drops all that git is not reading.
const MOST_KNOWN: usize = 256;

/// Time limits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Limit if no recent answer is known.
    pub usual: Duration,
    /// Limit if the last answer is at most a minute old and can stand in.
    pub if_seen_lately: Duration,
}

const LATELY: Duration = Duration::from_secs(60);

/// A running query to git.
#[derive(Debug)]
pub struct Look {
    repositories: Arc<Repositories>,
    root: PathBuf,
    until: Instant,
    /// `None` if another thread is querying already.
    answered: Option<mpsc::Receiver<RepoState>>,
}

impl Look {
    /// Returns git's answer, or the previous one if git takes too long.
    pub fn repo_state(&self) -> RepoState {
        let left = self.until.saturating_duration_since(Instant::now());
        let answer = self.answered.as_ref().and_then(|answered| answered.recv_timeout(left).ok());
        answer.unwrap_or_else(|| self.repositories.last_seen(&self.root))
    }
}

impl Repositories {
    /// The worktree at `root`, with the renames that the last survey found.
    pub fn tree(&self, root: &Path) -> WorkingTree {
        let renames = self.surveyed().get(root).map(|known| known.renames.clone()).unwrap_or_default();
        WorkingTree::new(root, renames, self.files.clone())
    }

    /// The worktree at `root`, with the renames that git finds now. False if git did not answer, and the last known ones must do.
    pub fn surveyed_tree(&self, root: &Path) -> (WorkingTree, bool) {
        match survey::renames(root) {
            Some(renames) => (WorkingTree::new(root, Arc::new(renames), self.files.clone()), true),
            None => (self.tree(root), false),
        }
    }

    /// True if a survey of the worktree at `root` is due; it then counts as done.
    pub fn is_survey_due(&self, root: &Path) -> bool {
        let mut surveyed = self.surveyed();
        if surveyed.get(root).is_some_and(|known| known.at.elapsed() < SURVEY_HOLDS) {
            return false;
        }
        if surveyed.len() >= MOST_KNOWN {
            surveyed.clear();
        }
        let renames = surveyed.remove(root).map(|known| known.renames).unwrap_or_default();
        surveyed.insert(root.to_owned(), Surveyed { at: Instant::now(), renames });
        true
    }

    /// False if a refresh of the worktree at `root` is to begin already.
    pub fn begin_refresh(&self, root: &Path) -> bool {
        self.refreshing().insert(root.to_owned())
    }

    /// Lets the next refresh of the worktree begin.
    pub fn end_refresh(&self, root: &Path) {
        self.refreshing().remove(root);
    }

    /// Keeps the renames of a worktree for [`Self::tree`].
    pub fn keep_renames(&self, root: &Path, renames: HashMap<String, String>) {
        if let Some(known) = self.surveyed().get_mut(root) {
            known.renames = Arc::new(renames);
        }
    }

    fn refreshing(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.refreshing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn surveyed(&self) -> MutexGuard<'_, HashMap<PathBuf, Surveyed>> {
        self.surveyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a query for the state of the worktree at `root`, bounded by `patience` from now on.
    pub fn look(self: &Arc<Self>, root: &Path, patience: Patience) -> Look {
        let patience = if self.seen_lately(root) { patience.if_seen_lately } else { patience.usual };
        let until = Instant::now() + patience;
        let answered = self.begin(root).then(|| self.ask(root));
        Look { repositories: Arc::clone(self), root: root.to_owned(), until, answered }
    }

    fn ask(self: &Arc<Self>, root: &Path) -> mpsc::Receiver<RepoState> {
        let (answer, answered) = mpsc::channel();
        let (repositories, asked) = (Arc::clone(self), root.to_owned());
        let asking = std::thread::Builder::new().name("git".into()).spawn(move || {
            let head = head_of(&asked);
            let repo_state = ask(&asked, repositories.commits_at(&asked, head));
            repositories.end(asked, repo_state.clone(), head);
            let _ = answer.send(repo_state);
        });
        if asking.is_err() {
            self.end(root.to_owned(), RepoState::default(), None);
        }
        answered
    }

    /// Marks `root` as queried. True if no other thread is querying it.
    fn begin(&self, root: &Path) -> bool {
        let mut known = self.known();
        if known.len() >= MOST_KNOWN && !known.contains_key(root) {
            known.retain(|_, known| known.is_asked);
        }
        !std::mem::replace(&mut known.entry(root.to_owned()).or_default().is_asked, true)
    }

    fn end(&self, root: PathBuf, repo_state: RepoState, head: Option<Head>) {
        let answered = Some(Instant::now());
        self.known().insert(root, KnownState { repo_state, head, is_asked: false, answered });
    }

    /// The known state, if there were no commits since.
    fn commits_at(&self, root: &Path, head: Option<Head>) -> Option<RepoState> {
        let known = self.known();
        let known = known.get(root).filter(|known| head.is_some() && known.head == head)?;
        Some(known.repo_state.clone())
    }

    fn seen_lately(&self, root: &Path) -> bool {
        self.known()
            .get(root)
            .and_then(|known| known.answered)
            .is_some_and(|answered| answered.elapsed() < LATELY)
    }

    fn last_seen(&self, root: &Path) -> RepoState {
        self.known().get(root).map(|known| known.repo_state.clone()).unwrap_or_default()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, KnownState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head_of(root: &Path) -> Option<Head> {
    let meta = std::fs::metadata(root.join(".git/logs/HEAD")).ok()?;
    Some((meta.len(), meta.modified().ok()?))
}

/// Inherited variables that redirect git to another repository or make it run programs; git's own hooks set some.
const FOREIGN: [&str; 25] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_PROXY_COMMAND",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
    "GIT_WORK_TREE",
];

/// Overrides for settings through which a repository could run programs during a query.
const HARMLESS: [(&str, &str); 7] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.quotePath", "false"),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
];

/// Settings that override the repository's own, as `key=value`.
struct GitSettings(Vec<String>);

impl GitSettings {
    fn harmless() -> Self {
        Self(HARMLESS.map(|(key, value)| format!("{key}={value}")).into())
    }

    /// Disables the filters that the repository defines: no single switch covers them, and git runs them on every file whose
    /// time has changed. `None` if one cannot be disabled, because of its name or because there are too many.
    fn without_filters(mut self, root: &Path) -> Option<Self> {
        let names = ["config", "--null", "--name-only", "--get-regexp", "^filter\\."];
        let Printed { bytes, is_whole: true } = Printed::by(git(root, &self, &names)) else { return None };
        let keys = String::from_utf8(bytes).ok()?;
        let mut filters: Vec<&str> =
            keys.split('\0').filter_map(|key| key.rsplit_once('.').map(|(filter, _)| filter)).collect();
        filters.sort_unstable();
        filters.dedup();
        for filter in filters {
            if filter.contains('=') {
                return None;
            }
            let off = ["clean=", "smudge=", "process=", "required=false"];
            self.0.extend(off.map(|setting| format!("{filter}.{setting}")));
        }
        Some(self)
    }
}

/// Runs git for the changed files and, unless they are known, the last commits, in parallel.
fn ask(root: &Path, known: Option<RepoState>) -> RepoState {
    let status = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--no-renames",
        "--ignore-submodules=all",
    ];
    let log = ["log", "-n", COMMITS, "--format=%x00%s", "--name-only", "--no-renames", "--no-ext-diff"];
    let harmless = GitSettings::harmless();
    // `git log` compares no files, so it runs no filters.
    let log = known.is_none().then(|| git(root, &harmless, &log)).flatten();
    let status = harmless.without_filters(root).and_then(|settings| git(root, &settings, &status));
    let changed_files = changed(&answer_of(status));
    // Callers read the branch from a file.
    match known {
        Some(known) => RepoState { changed_files, ..known },
        None => {
            let (commits, committed_files) = committed(&answer_of(log));
            RepoState { branch: None, changed_files, committed_files, commits }
        }
    }
}

/// False on macOS without developer tools, where `git` is a stub that opens a dialog to install them. One of these files
/// exists if the tools, or another git, are installed.
#[cfg(target_os = "macos")]
fn is_installed() -> bool {
    const TOOLS: [&str; 5] = [
        "/Library/Developer/CommandLineTools/usr/bin/git",
        "/Applications/Xcode.app/Contents/Developer/usr/bin/git",
        "/opt/homebrew/bin/git",
        "/usr/local/bin/git",
        "/opt/local/bin/git",
    ];
    TOOLS.iter().any(|tool| Path::new(tool).exists())
}

#[cfg(not(target_os = "macos"))]
fn is_installed() -> bool {
    true
}

/// Starts git so that it runs nothing that the repository names: no filter, hook, monitor, or transport that would fetch
/// missing objects.
fn git(root: &Path, settings: &GitSettings, arguments: &[&str]) -> Option<Child> {
    if !is_installed() {
        return None;
    }
    let mut command = Command::new("git");
    for name in FOREIGN {
        command.env_remove(name);
    }
    for setting in &settings.0 {
        command.args(["-c", setting]);
    }
    command
        .args(["--no-pager", "--no-optional-locks"])
        .args(arguments)
        .current_dir(root)
        .env("CLAUDE_MEM_INTERNAL", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

/// A child's output. The child is killed if it takes too long or prints too much.
#[derive(Default)]
struct Printed {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Printed {
    fn by(child: Option<Child>) -> Self {
        Self::within(MOST_BYTES, child)
    }

    /// At most this many bytes.
    fn within(most: u64, child: Option<Child>) -> Self {
        let Some(mut child) = child else { return Self::default() };
        let Some(stdout) = child.stdout.take() else { return Self::default() };
        let (read, reading) = mpsc::channel();
        let reader = std::thread::Builder::new().name("git output".into()).spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.take(most).read_to_end(&mut bytes);
            let _ = read.send(bytes);
        });
        let bytes = reader.ok().and_then(|_| reading.recv_timeout(PATIENCE).ok());
        let is_whole = bytes.as_ref().is_some_and(|bytes| (bytes.len() as u64) < most);
        if !is_whole {
            let _ = child.kill();
        }
        let _ = child.wait();
        Self { bytes: bytes.unwrap_or_default(), is_whole }
    }
}

fn answer_of(child: Option<Child>) -> String {
    String::from_utf8_lossy(&Printed::by(child).bytes).into_owned()
}

/// The paths of `git status -z`: each entry is two letters, a blank, a path.
fn changed(status: &str) -> Vec<String> {
    let paths = status.split('\0').filter_map(|entry| entry.get(3..));
    paths
        .filter(|path| !path.is_empty() && !path.ends_with('/'))
        .take(MOST_FILES)
        .map(str::to_owned)
        .collect()
}

/// The subjects and the files of commits, each of which starts with a NUL.
fn committed(log: &str) -> (Vec<String>, Vec<String>) {
    let (mut subjects, mut files) = (Vec::new(), Vec::new());
    for commit in log.split('\0').filter(|commit| !commit.trim().is_empty()) {
        let mut lines = commit.lines().filter(|line| !line.is_empty());
        subjects.extend(lines.next().map(str::to_owned));
        for file in lines.map(str::to_owned) {
            if files.len() < MOST_FILES && !files.contains(&file) {
                files.push(file);
            }
        }
    }
    (subjects, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Patience = Patience { usual: PATIENCE, if_seen_lately: PATIENCE };

    fn run(root: &Path, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(root)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn changes_and_commits_of_a_real_repository_are_seen() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        run(root, &["init", "-q"]);
        std::fs::create_dir(root.join("src")).unwrap();
        for (file, subject) in [("src/old file.rs", "Begin"), ("src/für.rs", "Add the parser")] {
            std::fs::write(root.join(file), "text").unwrap();
            run(root, &["add", "."]);
            run(root, &["commit", "-q", "-m", subject]);
        }
        std::fs::write(root.join("src/old file.rs"), "other text").unwrap();
        std::fs::write(root.join("new.rs"), "text").unwrap();
        std::fs::write(root.join("staged.rs"), "text").unwrap();
        run(root, &["add", "staged.rs"]);
        let repositories = Arc::new(Repositories::default());
        let seen = repositories.look(root, LONG).repo_state();
        assert_eq!(seen.commits, ["Add the parser", "Begin"]);
        assert_eq!(seen.committed_files, ["src/für.rs", "src/old file.rs"]);
        let mut changed = seen.changed_files;
        changed.sort();
        assert_eq!(changed, ["new.rs", "src/old file.rs", "staged.rs"]);
        // Again without a commit, and again after one.
        std::fs::write(root.join("src/für.rs"), "other text").unwrap();
        let again = repositories.look(root, LONG).repo_state();
        assert_eq!((again.commits, again.changed_files.len()), (seen.commits, 4));
        run(root, &["commit", "-q", "-a", "-m", "Change all of it"]);
        assert_eq!(repositories.look(root, LONG).repo_state().commits[0], "Change all of it");
    }

    #[test]
    fn callers_do_not_wait_and_a_late_answer_serves_the_next() {
        let scratch = tempfile::tempdir().unwrap();
        run(scratch.path(), &["init", "-q"]);
        std::fs::write(scratch.path().join("new.rs"), "text").unwrap();
        let repositories = Arc::new(Repositories::default());
        repositories.begin(scratch.path());
        assert_eq!(repositories.look(scratch.path(), LONG).repo_state(), RepoState::default());
        repositories.end(scratch.path().to_owned(), ask(scratch.path(), None), None);
        repositories.begin(scratch.path());
        assert_eq!(repositories.look(scratch.path(), LONG).repo_state().changed_files, ["new.rs"]);
    }

    #[test]
    fn a_recent_answer_is_reused_without_waiting() {
        let scratch = tempfile::tempdir().unwrap();
        run(scratch.path(), &["init", "-q"]);
        let repositories = Arc::new(Repositories::default());
        let briefly = Patience { usual: PATIENCE, if_seen_lately: Duration::ZERO };
        std::fs::write(scratch.path().join("old.rs"), "text").unwrap();
        assert_eq!(repositories.look(scratch.path(), briefly).repo_state().changed_files, ["old.rs"]);
        std::fs::write(scratch.path().join("new.rs"), "text").unwrap();
        let look = repositories.look(scratch.path(), briefly);
        assert_eq!(look.repo_state().changed_files, ["old.rs"]);
        // The late answer is stored for the next query.
        assert_eq!(look.answered.unwrap().recv().unwrap().changed_files.len(), 2);
        assert_eq!(repositories.last_seen(scratch.path()).changed_files.len(), 2);
    }

    #[test]
    fn a_directory_without_a_repository_has_an_empty_state() {
        let scratch = tempfile::tempdir().unwrap();
        let seen = Arc::new(Repositories::default()).look(scratch.path(), LONG).repo_state();
        assert_eq!(seen, RepoState::default());
        let gone = Arc::new(Repositories::default()).look(Path::new("/nonexistent/place"), LONG).repo_state();
        assert_eq!(gone, RepoState::default());
    }
}
