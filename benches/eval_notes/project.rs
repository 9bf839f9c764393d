//! A folder of transcripts as one project: its files in order, its paths, its events.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use claude_mem::capture::{self, Verb};
use claude_mem::config::{Config, Environment};
use claude_mem::model::Event;
use regex::{Captures, Regex};

use crate::transcript::{self, Part, for_each_line};

/// The parent of all projects. It does not exist, so that nothing reads real files, and never changes, so that the notes of
/// two runs can be compared.
const PARENT: &str = "/nonexistent";

/// Returns the folders of transcripts below `data`, one for each project, in order.
pub fn folders(data: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(data).with_context(|| format!("cannot read DATA={}", data.display()))?;
    let mut folders: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.retain(|folder| folder.join("claude").is_dir());
    folders.sort();
    ensure!(!folders.is_empty(), "no transcripts: expected {}/PROJECT/claude/**/*.jsonl", data.display());
    Ok(folders)
}

/// A project, with everything that its hooks recorded.
pub struct Project {
    pub name: String,
    /// The directory that stands for the original one.
    pub root: String,
    pub rewriter: Rewriter,
    /// In order of time.
    pub events: Vec<Event>,
    /// Answers to the assistant's questions: session, time, text. The hook skips that tool by default.
    pub answers: Vec<(String, i64, String)>,
    /// The number of records of each kind in [`LEFT_OUT`].
    pub left_out: HashMap<&'static str, i64>,
    /// The branch of the record that is being read.
    pub branch: Option<String>,
    config: Config,
}

/// The kinds of records that made no event.
pub const LEFT_OUT: [&str; 4] = ["rejected calls", "copied records", "sidechain records", "unreadable lines"];

/// A transcript file.
pub struct Transcript {
    pub path: PathBuf,
    pub session: String,
    last: String,
}

impl Project {
    /// Reads the transcripts in `folder`. Paths are moved below [`PARENT`], under the folder's name.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let root = format!("{PARENT}/{name}");
        let (transcripts, original) = survey(&folder.join("claude"))?;
        let mut project = Self {
            rewriter: Rewriter::new(&original, &root)?,
            name,
            root,
            events: Vec::new(),
            answers: Vec::new(),
            left_out: HashMap::new(),
            branch: None,
            config: Config::default(),
        };
        let mut seen = HashMap::new();
        for (number, transcript) in transcripts.iter().enumerate() {
            transcript::convert(transcript, number, &mut seen, &mut project)?;
        }
        // Stable: within a session the order stays.
        project.events.sort_by_key(|event| event.at);
        Ok(project)
    }

    /// Counts a record that makes no event.
    pub fn leave_out(&mut self, kind: &'static str) {
        *self.left_out.entry(kind).or_default() += 1;
    }

    /// Runs the hook's own code on a payload. Sessions of worktrees and sub-directories belong to the project, too.
    pub fn capture(&mut self, verb: Verb, payload: Vec<u8>, at: i64) {
        let event = capture::event_from(verb, payload, at, &self.config, &Environment::default());
        self.events.extend(event.map(|mut event| {
            if let Some(session) = &mut event.session {
                session.project.clone_from(&self.name);
                session.project_path.clone_from(&self.root);
                session.branch.clone_from(&self.branch);
            }
            event
        }));
    }
}

/// Lists the transcripts below `folder`, those that ended first at the front, and finds the most common directory.
fn survey(folder: &Path) -> Result<(Vec<Transcript>, String)> {
    let mut directories: HashMap<String, usize> = HashMap::new();
    let mut transcripts = Vec::new();
    for path in glob::glob(&folder.join("**/*.jsonl").to_string_lossy())? {
        let path = path?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem.starts_with("agent-") {
            continue;
        }
        let (mut session, mut last) = (None, String::new());
        for_each_line(&path, |line| {
            let Ok(record) = serde_json::from_str::<Part<'_>>(line) else { return };
            let kind = record.kind.as_deref().unwrap_or_default();
            if matches!(kind, "user" | "assistant" | "progress" | "attachment") {
                session = session.take().or(record.session_id);
            }
            last = record.timestamp.unwrap_or_else(|| std::mem::take(&mut last));
            if let Some(cwd) = record.cwd {
                *directories.entry(cwd).or_default() += 1;
            }
        })
        .with_context(|| path.display().to_string())?;
        transcripts.push(Transcript { path, session: session.unwrap_or(stem), last });
    }
    transcripts.sort_by(|a, b| (&a.last, &a.path).cmp(&(&b.last, &b.path)));
    let most = directories.into_iter().max_by_key(|(directory, count)| (*count, directory.clone()));
    Ok((transcripts, most.map(|(directory, _)| directory).unwrap_or_default()))
}

/// Replaces the original machine's directory by another one in the JSON of a record.
pub struct Rewriter {
    pattern: Option<Regex>,
    to: String,
}

impl Rewriter {
    fn new(from: &str, to: &str) -> Result<Self> {
        let pattern = match from.split_once(":\\") {
            // In JSON a backslash is two; the shells of Windows write /d/ for D:\, too.
            Some((drive, rest)) => {
                let between = r"(?:\\\\|/)+";
                let names: Vec<String> = rest.split('\\').map(regex::escape).collect();
                let (upper, lower) = (drive.to_uppercase(), drive.to_lowercase());
                let segment = r#"[^\s\\/:*?"<>|'`,;)\]}(]+"#;
                format!(
                    "(?:[{upper}{lower}]:{between}|/{lower}/){}((?:{between}{segment})*)",
                    names.join(between)
                )
            }
            None => format!("{}()", regex::escape(from)),
        };
        let pattern = (!from.is_empty()).then(|| Regex::new(&pattern)).transpose()?;
        Ok(Self { pattern, to: to.to_owned() })
    }

    /// Rewrites one line of JSON.
    pub fn rewrite<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let Some(pattern) = &self.pattern else { return Cow::Borrowed(line) };
        pattern.replace_all(line, |found: &Captures<'_>| {
            let whole = found.get_match();
            let is_longer_name =
                line[whole.end()..].starts_with(|next: char| next.is_alphanumeric() || "_-".contains(next));
            if is_longer_name {
                return whole.as_str().to_owned();
            }
            let below: String = found[1]
                .split(['\\', '/'])
                .filter(|name| !name.is_empty())
                .fold(String::new(), |path, name| path + "/" + name);
            format!("{}{below}", self.to)
        })
    }
}
