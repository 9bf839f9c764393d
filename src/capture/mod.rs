//! From a payload of Claude Code to the event that is stored: for hooks, and for events that arrive
//! over HTTP or from histories.

pub mod agents;
mod event;
mod json;
mod payload;
pub(crate) mod tool_names;

use crate::config::Config;
#[cfg(feature = "service")]
use crate::config::Environment;
use crate::model::Agent;
#[cfg(feature = "service")]
use crate::model::{Event, Millis};
use crate::paths::Home;
use crate::store::maintenance::limits;

pub use event::{event_from_input, session_of, text_of};

/// The hook's verb: the kind of event that it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A session starts: record it, print the context.
    Context,
    /// The user submitted a prompt.
    New,
    /// A tool was used.
    Save,
    /// A file is about to be changed: print memories of it. Records nothing.
    File,
    /// A turn ended.
    Summary,
    /// Compaction is near.
    Compact,
    /// The session ended.
    End,
}

impl Verb {
    /// The verb of that name.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "context" => Some(Self::Context),
            "new" => Some(Self::New),
            "save" => Some(Self::Save),
            "file" => Some(Self::File),
            "summary" => Some(Self::Summary),
            "compact" => Some(Self::Compact),
            "end" => Some(Self::End),
            _ => None,
        }
    }
}

/// A payload as it was received.
pub struct Input {
    /// The payload, cut if it is huge.
    pub bytes: Vec<u8>,
    /// Size before the cut.
    pub raw_bytes: u64,
    /// The agent that sent it.
    pub agent: Agent,
}

/// Returns the event of a payload that does not come from a hook's stdin; none if the user does not
/// want it recorded.
#[cfg(feature = "service")]
pub fn event_from(
    verb: Verb,
    payload: Vec<u8>,
    now: Millis,
    config: &Config,
    environment: &Environment,
) -> Option<Event> {
    let raw_bytes = payload.len() as u64;
    event_from_input(
        verb,
        &Input { bytes: payload, raw_bytes, agent: Agent::ClaudeCode },
        now,
        config,
        environment,
    )
}

/// Limits events to their beginning while the database is too large or the disk nearly full.
pub fn limit_payload_on_low_disk(home: &Home, config: &mut Config) {
    if limits::is_over(home, config.retention.max_mb) || limits::is_disk_low(home) {
        config.hook.max_payload_bytes = config.hook.max_payload_bytes.min(limits::KEPT_OF_AN_EVENT);
    }
}
