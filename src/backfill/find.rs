//! Finds histories: walks directories of any shape, and surveys each file by its beginning and its end.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::json::Object;
use super::{HistorySource, Transcript};
use crate::config::Environment;
use crate::model::Millis;
use crate::paths::open_plain;

/// Beginning and end of a file that a survey reads, in bytes.
const HEAD: u64 = 256 << 10;
const TAIL: u64 = 64 << 10;

/// The histories that were found.
#[derive(Debug, Default)]
pub struct FoundHistories {
    /// Readable histories, oldest first.
    pub transcripts: Vec<Transcript>,
    /// Files and directories that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Files that hold no session.
    pub empty: u64,
}

/// Finds the histories of agents at their usual places.
pub fn usual(environment: &Environment, agents: &[HistorySource]) -> FoundHistories {
    let mut found = FoundHistories::default();
    for agent in agents {
        for root in agent.roots(environment) {
            found.walk(&root, Some(*agent), false);
        }
    }
    found.sorted()
}

/// Finds the histories in files and directories that the user names.
pub fn named(paths: &[PathBuf], agent: Option<HistorySource>) -> FoundHistories {
    let mut found = FoundHistories::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(_) => found.walk(path, agent, true),
            Err(error) => found.unreadable.push((path.clone(), error.to_string())),
        }
    }
    found.sorted()
}

/// The histories at the usual places, without a look into them.
pub fn files(environment: &Environment) -> Vec<(HistorySource, PathBuf)> {
    let mut files = Vec::new();
    for agent in HistorySource::ALL {
        for root in agent.roots(environment) {
            let mut take = |path: &Path, _: &Metadata| {
                if agent.reader().is_history(path) {
                    files.push((agent, path.to_owned()));
                }
            };
            each_file(&root, &mut take, &mut |_, _| {});
        }
    }
    files
}

/// The number of files of each agent, in words: "12 of claude-code, 3 of codex".
pub fn in_words(files: &[(HistorySource, PathBuf)]) -> String {
    let count = |agent: HistorySource| files.iter().filter(|(of, _)| *of == agent).count();
    let counted = HistorySource::ALL.into_iter().map(|agent| (agent.as_str(), count(agent)));
    let words: Vec<String> =
        counted.filter(|(_, count)| *count > 0).map(|(agent, count)| format!("{count} of {agent}")).collect();
    words.join(", ")
}

impl FoundHistories {
    fn walk(&mut self, root: &Path, agent: Option<HistorySource>, is_named: bool) {
        let mut files = Vec::new();
        let unreadable = &mut self.unreadable;
        each_file(root, &mut |path, meta| files.push((path.to_owned(), meta.clone())), &mut |path, error| {
            unreadable.push((path.to_owned(), error.to_string()));
        });
        let companions: Vec<Companion> = files
            .iter()
            .filter(|(path, _)| is_companion(path))
            .map(|(path, _)| Companion::of(path))
            .collect();
        for (path, meta) in files.into_iter().filter(|(path, _)| !is_companion(path)) {
            let is_alone = is_named && path == root;
            self.survey(path, &meta, agent, is_alone, &companions);
        }
    }

    fn survey(
        &mut self,
        path: PathBuf,
        meta: &Metadata,
        agent: Option<HistorySource>,
        is_alone: bool,
        companions: &[Companion],
    ) {
        let agents = agent.map_or_else(|| HistorySource::ALL.to_vec(), |agent| vec![agent]);
        if !is_alone && !agents.iter().any(|agent| agent.reader().is_history(&path)) {
            return;
        }
        let (head, tail) = match ends(&path, meta.len()) {
            Ok(ends) => ends,
            Err(error) => return self.unreadable.push((path, error.to_string())),
        };
        // From the most particular name to the most general.
        let is_its = |agent: &&HistorySource| {
            (is_alone || agent.reader().is_history(&path)) && agent.reader().begins_like(&head)
        };
        let surveyed = agents
            .iter()
            .rev()
            .find(is_its)
            .and_then(|agent| Some((*agent, agent.reader().survey(&path, &head, &tail)?)));
        let Some((agent, survey)) = surveyed else {
            self.empty += 1;
            return;
        };
        let modified_at = modified(meta);
        let companions = companions_of(&path, &survey.session, companions);
        self.transcripts.push(Transcript {
            agent,
            session: survey.session,
            cwd: survey.cwd,
            last: survey.last.unwrap_or(modified_at),
            size: meta.len(),
            modified_at,
            companions,
            path,
        });
    }

    /// Oldest first: of two files with the same records the one that ended first is the original.
    fn sorted(mut self) -> Self {
        self.transcripts.sort_by(|one, other| (one.last, &one.path).cmp(&(other.last, &other.path)));
        self.transcripts.dedup_by(|one, other| one.path == other.path);
        self
    }
}

fn modified(meta: &Metadata) -> Millis {
    let since =
        meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// A subagent's file of Claude Code.
fn is_companion(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
        && path.extension().is_some_and(|extension| extension == "jsonl")
}

/// A subagent's file, and the session that its first line names.
struct Companion {
    path: PathBuf,
    session: Option<String>,
}

impl Companion {
    fn of(path: &Path) -> Self {
        let is_below = path.components().any(|part| part.as_os_str() == "subagents");
        let head = if is_below { None } else { ends(path, 0).ok() };
        let first = head.as_ref().and_then(|(head, _)| Object::parse(head.lines().next()?));
        Self { session: first.and_then(|first| first.text("sessionId")), path: path.to_owned() }
    }
}

/// The subagents' files below the session's directory, or next to its file.
fn companions_of(path: &Path, session: &str, companions: &[Companion]) -> Vec<PathBuf> {
    let below = path.with_extension("");
    let is_its = |companion: &&Companion| {
        companion.path.starts_with(&below) || companion.session.as_deref() == Some(session)
    };
    companions.iter().filter(is_its).map(|companion| companion.path.clone()).collect()
}

/// Beginning and end of a file; whole lines, except where one is longer than what is read.
fn ends(path: &Path, size: u64) -> io::Result<(String, String)> {
    let mut file = open_plain(path)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut head)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    file.take(TAIL).read_to_end(&mut tail)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(head), text(tail)))
}

/// Passes the files below `root`, or itself, to `take`. Links are followed, and no directory is entered twice.
fn each_file(root: &Path, take: &mut dyn FnMut(&Path, &Metadata), fail: &mut dyn FnMut(&Path, &io::Error)) {
    let mut entered = HashSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            // A link to nowhere, or an agent that was never used.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                fail(&path, &error);
                continue;
            }
        };
        if meta.is_file() {
            take(&path, &meta);
        } else if meta.is_dir() && entered.insert((meta.dev(), meta.ino())) {
            match fs::read_dir(&path) {
                Ok(entries) => waiting.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) => fail(&path, &error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_links_is_walked_once() {
        let scratch = tempfile::tempdir().unwrap();
        let inner = scratch.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("x.jsonl"), "{}").unwrap();
        std::os::unix::fs::symlink(scratch.path(), inner.join("loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", inner.join("dangling")).unwrap();
        let mut seen = 0;
        each_file(scratch.path(), &mut |_, _| seen += 1, &mut |path, error| panic!("{path:?}: {error}"));
        assert_eq!(seen, 1);
    }
}
