//! The shim: read, strip, insert or spool, nudge, print. Nothing asynchronous, never in the way; no child but a worker
//! where there is none, and it is not waited for.
//!
//! Everything here runs while the user waits for Claude Code, so it does one transaction and leaves the rest to the
//! worker. It always succeeds from outside: what cannot be stored is spooled, what cannot be spooled is counted.

mod autostart;
mod context;
mod event;
mod history;
mod http;
mod json;
mod moment;
mod notice;
mod nudge;
mod payload;

use std::io::{self, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

#[cfg(feature = "service")]
pub use autostart::LAUNCH;

use crate::config::{Config, Environment, Problem, Synchronous};
use crate::files::disk;
use crate::model::{Event, Millis};
use crate::paths::Home;
use crate::spool;
use crate::store::maintenance::limits;
use crate::store::{self, Recorded, StoreError};

/// The shim's verb.
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

/// More input than this is not a hook's payload; the rest is read and let go.
const MAX_INPUT_BYTES: u64 = 256 << 20;

/// The reason why an event is in neither the database nor the spool.
#[derive(Debug, thiserror::Error)]
#[error("{store}; the spool: {spool}")]
struct Lost {
    store: StoreError,
    spool: io::Error,
}

/// The place of an event that is not in the database. No failure: the worker takes it in from there.
#[derive(Debug, thiserror::Error)]
#[error("in the spool, because: {0}")]
struct Spooled(StoreError);

/// Runs `verb` with the payload from `input`, and prints the answer for Claude Code to `output`. What it
/// returns is for a debugging person only.
pub fn run(
    verb: Verb,
    environment: &Environment,
    input: impl Read,
    mut output: impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    if environment.internal {
        return Ok(());
    }
    // Whatever is created from here on, by SQLite too, is for its owner only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let now = now();
    let payload = read_bounded(input)?;
    let home = match Home::locate(environment.mem_home.clone(), environment.user_home.clone()) {
        Ok(home) => home.on(environment.file_system),
        Err(error) => {
            spool::count_dropped(None, environment, now, &error.to_string());
            return Err(error.into());
        }
    };
    if let Err(error) = home.check_local() {
        // Nothing is recorded here, and the user has to know that in every session.
        if verb == Verb::Context {
            let message = format!("claude-mem: nothing is remembered: {error}");
            context::write_answer(&mut output, "SessionStart", "", Some(&message))?;
        }
        return Err(error.into());
    }
    let (mut config, problems) = Config::load_forgiving(&home.config(), environment);
    limit_payload_on_low_disk(&home, &mut config);
    let asker = moment::Asker { home: &home, config: &config, environment };
    if verb == Verb::File {
        return Ok(asker.before_change(&payload, &mut output)?);
    }
    let Some(event) = event::accept(verb, &payload, now, &config, environment) else {
        return Ok(());
    };
    let kept = keep(&home, &config, environment, &event, &problems);
    let is_served = nudge::send(&home);
    let (kept, outcome) = match kept {
        Ok(mut kept) => {
            let outcome = kept.spooled.take().map_or(Ok(()), |spooled| Err(spooled.into()));
            (kept, outcome)
        }
        Err(lost) => (Kept::default(), Err(lost.into())),
    };
    match verb {
        // Another hook set was faster, and has said what there is to say.
        _ if kept.is_known => {}
        Verb::Context => context::print(&home, &config, environment, &event, kept.database, output)?,
        Verb::New | Verb::Save if is_served => asker.after(&event, &payload, kept.database, &mut output)?,
        _ => {}
    }
    if !is_served && config.worker.autostart {
        autostart::start(&home);
    }
    outcome
}

/// While the database is too large or the disk nearly full, only the beginning of an event is kept.
pub fn limit_payload_on_low_disk(home: &Home, config: &mut Config) {
    if limits::is_over(home, config.retention.max_mb) || limits::is_disk_low(home) {
        config.hook.max_payload_bytes = config.hook.max_payload_bytes.min(limits::KEPT_OF_AN_EVENT);
    }
}

/// The event that a payload makes, for payloads that arrive by another way than a hook's stdin. None if the user does
/// not want it recorded.
pub fn accept(
    verb: Verb,
    payload: Vec<u8>,
    now: Millis,
    config: &Config,
    environment: &Environment,
) -> Option<Event> {
    let raw_bytes = payload.len() as u64;
    event::accept(verb, &Input { bytes: payload, raw_bytes }, now, config, environment)
}

/// Nudges the worker to look at the queue, if there is one.
pub fn nudge(home: &Home) {
    nudge::send(home);
}

/// The same; false if there is no worker.
#[cfg(feature = "service")]
pub fn is_nudged(home: &Home) -> bool {
    nudge::send(home)
}

/// An event that is safe.
#[derive(Default)]
struct Kept {
    /// Its place, unless that is the spool.
    database: Option<Connection>,
    /// True if it was there before.
    is_known: bool,
    /// The reason why it is in the spool.
    spooled: Option<Spooled>,
}

/// Puts the event into the database, else into the spool, else counts it as dropped.
fn keep(
    home: &Home,
    config: &Config,
    environment: &Environment,
    event: &Event,
    problems: &[Problem],
) -> Result<Kept, Lost> {
    let stored = store::open_for_hook(home, config.hook.busy_ms).and_then(|mut database| {
        if config.hook.synchronous == Synchronous::Full {
            store::sync_every_commit(&database)?;
        }
        // The client also ends sessions that never began: `claude mcp list` does. What waits in the spool may be their beginning.
        if store::ends_nothing(&database, event)?
            && spool::waiting(home).is_ok_and(|waiting| waiting.is_empty())
        {
            return Ok(Kept { database: Some(database), is_known: true, spooled: None });
        }
        let is_known = store::record(&mut database, event)? == Recorded::Duplicate;
        note_problems(&database, problems, event.at);
        Ok(Kept { database: Some(database), is_known, spooled: None })
    });
    let store = match stored {
        Ok(kept) => return Ok(kept),
        Err(error) => error,
    };
    let write = || home.prepare().map_err(io::Error::other).and_then(|()| spool::write(home, event));
    let spooled = write().or_else(|error| if disk::release_ballast(home) { write() } else { Err(error) });
    match spooled {
        Ok(()) => Ok(Kept { spooled: Some(Spooled(store)), ..Kept::default() }),
        Err(spool) => {
            let lost = Lost { store, spool };
            spool::count_dropped(Some(home), environment, event.at, &lost.to_string());
            Err(lost)
        }
    }
}

/// Best effort: the worker, which is strict about settings, says the same with more emphasis.
fn note_problems(database: &Connection, problems: &[Problem], now: Millis) {
    for problem in problems {
        let _ = store::note_ignored_setting(database, &problem.to_string(), now);
    }
}

/// All of the input, whatever its size; what is beyond the bound is counted in `raw_bytes` and not kept.
fn read_bounded(mut input: impl Read) -> io::Result<Input> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    let read = input.by_ref().take(MAX_INPUT_BYTES).read_to_end(&mut bytes)? as u64;
    let beyond = if read == MAX_INPUT_BYTES { io::copy(&mut input, &mut io::sink())? } else { 0 };
    Ok(Input { bytes, raw_bytes: read + beyond })
}

/// The input from stdin.
struct Input {
    bytes: Vec<u8>,
    raw_bytes: u64,
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
