//! Histories that agents keep on this machine, replayed through live capture.
//!
//! A `Reader` turns one agent's file into the events that hooks would have sent; [`replay`] takes them in by the same rules as
//! a hook does, and marks how far each file was read. Nothing in the histories' directories is ever written.

mod claude_code;
mod codex;
mod copilot;
mod dialogue;
mod documents;
pub mod find;
pub mod follow;
mod gemini;
mod json;
mod lines;
mod opencode;
pub mod replay;

use std::io;
use std::path::{Path, PathBuf};

use crate::capture::Verb;
use crate::config::Environment;
use crate::model::Millis;
use crate::store::StoreError;

/// An agent whose histories can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[allow(missing_docs, reason = "the words say it")]
pub enum HistorySource {
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
    Copilot,
}

impl HistorySource {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Opencode, Self::Gemini, Self::Copilot];

    /// The word for it, as stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
        }
    }

    /// The directories in which it keeps its histories.
    pub fn roots(self, environment: &Environment) -> Vec<PathBuf> {
        let Some(home) = environment.user_home.as_deref() else { return Vec::new() };
        match self {
            Self::ClaudeCode => {
                let moved = environment.outgoing.claude_config_dir.clone();
                vec![moved.unwrap_or_else(|| home.join(".claude")).join("projects")]
            }
            Self::Codex => {
                let codex = environment.codex_home.clone().unwrap_or_else(|| home.join(".codex"));
                vec![codex.join("sessions"), codex.join("archived_sessions")]
            }
            Self::Opencode => {
                let data = environment.data_dir.clone().unwrap_or_else(|| home.join(".local/share"));
                vec![data.join("opencode/storage/session")]
            }
            Self::Gemini => vec![home.join(".gemini/tmp")],
            Self::Copilot => {
                let copilot = home.join(".copilot");
                vec![copilot.join("session-state"), copilot.join("history-session-state")]
            }
        }
    }

    fn reader(self) -> &'static dyn Reader {
        match self {
            Self::ClaudeCode => &claude_code::ClaudeCode,
            Self::Codex => &codex::Codex,
            Self::Opencode => &opencode::Opencode,
            Self::Gemini => &gemini::Gemini,
            Self::Copilot => &copilot::Copilot,
        }
    }
}

/// One agent's format.
trait Reader: Sync {
    /// True if a file of this name is a session's history.
    fn is_history(&self, path: &Path) -> bool;

    /// True if a file of any name begins like this agent's histories.
    fn begins_like(&self, head: &str) -> bool;

    /// Finds out whose history it is, from the beginning and the end of the file.
    fn survey(&self, path: &Path, head: &str, tail: &str) -> Option<FileSession>;

    /// Passes the events of the file from an offset on to `sink`, in order. True if the session is over.
    fn read(&self, transcript: &Transcript, from: u64, sink: &mut dyn Sink) -> Result<bool, Stop>;
}

/// The session of a history file, as its beginning and end have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FileSession {
    session: String,
    cwd: Option<String>,
    last: Option<Millis>,
}

/// A session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The file.
    pub path: PathBuf,
    /// The agent that wrote it.
    pub agent: HistorySource,
    /// The session.
    pub session: String,
    /// The directory in which the session began.
    pub cwd: Option<String>,
    /// The time of its last record.
    pub last: Millis,
    /// The file's size.
    pub size: u64,
    /// The file's modification time.
    pub modified_at: Millis,
    /// Files of the session's subagents.
    pub companions: Vec<PathBuf>,
}

/// Takes what a reader finds.
trait Sink {
    /// An event.
    fn take(&mut self, happening: Happening) -> Result<(), Stop>;

    /// True if another file had this record first.
    fn is_copy(&mut self, record: &str) -> Result<bool, Stop>;

    /// Everything before this offset is complete: reading may start again here.
    fn restart_at(&mut self, offset: u64);

    /// A record that makes no event.
    fn leave_out(&mut self, why: LeftOut);

    /// The client's own title of the session.
    fn title(&mut self, title: String);

    /// Tokens that the agent used, once for each answer.
    fn usage(&mut self, tokens_in: u64, tokens_out: u64);

    /// Counts bytes that were read.
    fn advance(&mut self, bytes: u64);

    /// The present.
    fn now(&self) -> Millis;
}

/// Something that happened in a session, as a hook would have sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Happening {
    verb: Verb,
    at: Millis,
    /// The members of the hook's JSON object beyond the session and the place.
    members: String,
    /// The key of an event to which the client gives no id.
    key: Option<String>,
    /// The record that it was made of.
    record: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    /// The client fires no hook for it: a call that the user refused, a file that the user edited.
    is_unhooked: bool,
}

/// The reason for which a record made no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Not JSON, or not an object.
    Broken,
    /// Longer than a line may be.
    TooLong,
    /// Another session had it first.
    Copy,
    /// It claims to belong to another session than its file.
    OtherSession,
    /// Injected by the client: not the user's words.
    Injected,
    /// The result of a call that is not there.
    NoCall,
}

impl LeftOut {
    /// Its name in a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken lines",
            Self::TooLong => "lines over 16 MB",
            Self::Copy => "copies of another session's records",
            Self::OtherSession => "records that claim another session",
            Self::Injected => "texts of the client",
            Self::NoCall => "results without a call",
        }
    }
}

/// The reason for which reading stopped before the end.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}

/// Milliseconds of a time as agents write it.
fn millis(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
