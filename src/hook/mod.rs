//! The shim: read, strip, insert or spool, nudge, print. Nothing asynchronous, never in the way; no child but a worker
//! where there is none, and it is not waited for.
//!
//! Everything here runs while the user waits for Claude Code, so it does one transaction and leaves the rest to the
//! worker. It always succeeds from outside: what cannot be stored is spooled, what cannot be spooled is counted.

mod autostart;
mod context;
mod history;
mod http;
mod in_session;
mod notice;

use std::io::{self, Read, Write};

use rusqlite::Connection;

#[cfg(feature = "service")]
pub use autostart::LAUNCH;

use crate::capture::{self, Input, Verb, agents};
use crate::clock;
use crate::config::{Config, Environment, Problem, Synchronous};
use crate::files::disk;
use crate::model::{Agent, Event, Millis};
use crate::nudge;
use crate::paths::Home;
use crate::spool;
use crate::store::{self, Recorded, StoreError};

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

/// Runs `verb` with the payload from `input`, and prints the answer for the agent to `output`. What it
/// returns is for a debugging person only.
pub fn run(
    verb: Verb,
    agent: Agent,
    environment: &Environment,
    input: impl Read,
    mut output: impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    if environment.internal {
        return Ok(());
    }
    // Whatever is created from here on, by SQLite too, is for its owner only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let now = clock::now();
    let payload = read_bounded(input, agent)?;
    let home = match Home::locate(environment.mem_home.clone(), environment.user_home.clone()) {
        Ok(home) => home.on(environment.file_system),
        Err(error) => {
            spool::count_dropped(None, environment, now, &error.to_string());
            return Err(error.into());
        }
    };
    if let Err(error) = home.check_local() {
        // Nothing is recorded here, and the user has to know that in every session.
        if verb == Verb::Context && !environment.is_unattended {
            let message = format!("claude-mem: nothing is remembered: {error}");
            context::write_answer(&mut output, agent, "SessionStart", "", Some(&message))?;
        }
        return Err(error.into());
    }
    let (mut config, problems) = Config::load_forgiving(&home.config(), environment);
    capture::limit_payload_on_low_disk(&home, &mut config);
    let asker = in_session::Asker { home: &home, config: &config, environment };
    if verb == Verb::File {
        return Ok(asker.before_change(&payload, &mut output)?);
    }
    let mut payloads = agents::as_claude_code(payload).into_iter();
    let Some(payload) = payloads.next() else { return Ok(()) };
    for further in payloads {
        if let Some(event) = capture::event_from_input(verb, &further, now, &config, environment) {
            let _ = keep(&home, &config, environment, &event, &problems);
        }
    }
    let Some(event) = capture::event_from_input(verb, &payload, now, &config, environment) else {
        return Ok(());
    };
    let kept = keep(&home, &config, environment, &event, &problems);
    let is_served = nudge::send(&home);
    let (kept, outcome) = match kept {
        Ok(kept) => (kept, Ok(())),
        Err(lost) => (SafeEvent::default(), Err(lost.into())),
    };
    match verb {
        // Another hook set was faster, and has said what there is to say.
        _ if kept.is_known => {}
        Verb::Context => {
            let start = notice::SessionStart { home: &home, config: &config, environment, event: &event };
            context::print(&start, kept.database.as_ref(), kept.spooled.as_ref(), output)?;
        }
        Verb::New | Verb::Save if is_served => {
            asker.after(&event, &payload, kept.database.as_ref(), &mut output)?;
        }
        _ => {}
    }
    if !is_served && config.worker.autostart {
        autostart::start(&home);
    }
    kept.database.into_iter().for_each(store::leave_open_until_exit);
    outcome.and(kept.spooled.map_or(Ok(()), |spooled| Err(spooled.into())))
}

/// An event that is safe.
#[derive(Default)]
struct SafeEvent {
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
) -> Result<SafeEvent, Lost> {
    let stored = store::open_for_hook(home, config.hook.busy_ms).and_then(|mut database| {
        if config.hook.synchronous == Synchronous::Full {
            store::sync_every_commit(&database)?;
        }
        // The client also ends sessions that never began: `claude mcp list` does. What waits in the spool may be their beginning.
        if store::ends_nothing(&database, event)?
            && spool::waiting(home).is_ok_and(|waiting| waiting.is_empty())
        {
            return Ok(SafeEvent { database: Some(database), is_known: true, spooled: None });
        }
        let is_known = store::record(&mut database, event)? == Recorded::Duplicate;
        note_problems(&database, problems, event.at);
        Ok(SafeEvent { database: Some(database), is_known, spooled: None })
    });
    let store = match stored {
        Ok(kept) => return Ok(kept),
        Err(error) => error,
    };
    let write = || home.prepare().map_err(io::Error::other).and_then(|()| spool::write(home, event));
    let spooled = write().or_else(|error| if disk::release_ballast(home) { write() } else { Err(error) });
    match spooled {
        Ok(()) => Ok(SafeEvent { spooled: Some(Spooled(store)), ..SafeEvent::default() }),
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
fn read_bounded(mut input: impl Read, agent: Agent) -> io::Result<Input> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    let read = input.by_ref().take(MAX_INPUT_BYTES).read_to_end(&mut bytes)? as u64;
    let beyond = if read == MAX_INPUT_BYTES { io::copy(&mut input, &mut io::sink())? } else { 0 };
    Ok(Input { bytes, raw_bytes: read + beyond, agent })
}
