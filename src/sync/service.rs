//! Synchronisation inside the service: a moment after work, when another device sent something, and
//! every half minute.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use super::engine::{Engine, Local};
use super::server::ServerConnection;
use crate::model::Millis;
use crate::store::sync as local;

/// Time after a write in which further writes are awaited.
const SETTLE: Duration = Duration::from_millis(300);
/// Back-off after a failure: the first delay, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// Runs until it is dropped. `poll` is the interval while nothing happens; `written` completes after a write to the database; `now` is the clock.
pub async fn run<L: Local>(
    engine: Engine<L>,
    poll: Duration,
    mut written: impl AsyncFnMut(),
    now: impl Fn() -> Millis,
) {
    let mut engine = engine.listening();
    let mut delay = FIRST_DELAY;
    let mut problem = String::new();
    loop {
        match cycle(&mut engine, now()).await {
            Ok(()) => {
                if !problem.is_empty() {
                    tracing::info!("synchronisation works again");
                }
                problem.clear();
                delay = FIRST_DELAY;
                wait(&mut engine, poll, &mut written).await;
            }
            Err(reason) => {
                if reason != problem {
                    tracing::warn!(reason, "cannot synchronise: {reason}");
                    problem = reason;
                }
                tokio::time::sleep(jittered(delay)).await;
                delay = (delay * 2).min(LONGEST_DELAY);
            }
        }
    }
}

async fn cycle<L: Local>(engine: &mut Engine<L>, now: Millis) -> Result<(), String> {
    let report = engine.cycle(now).await.map_err(|error| error.to_string())?;
    if report.refused > 0 {
        let refused = report.refused;
        tracing::warn!(refused, "{refused} records were set aside; see `claude-mem sync status`");
    }
    Ok(())
}

/// Waits for a reason to synchronise.
async fn wait<L: Local>(engine: &mut Engine<L>, poll: Duration, written: &mut impl AsyncFnMut()) {
    let poll = tokio::time::sleep(poll + jittered(poll / 4));
    tokio::pin!(poll);
    loop {
        let is_write = tokio::select! {
            () = &mut poll => return,
            () = written() => true,
            () = news(engine.server()) => false,
        };
        if !is_write {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        let waiting = engine.local().read(local::dirty).await;
        if waiting.is_ok_and(|waiting| waiting > 0) {
            return;
        }
    }
}

/// Waits until the server announces records, and takes all announcements, or until the connection is lost.
async fn news(server: Option<&mut ServerConnection>) {
    let Some(server) = server else { return std::future::pending().await };
    // At the end of the connection as well: the next cycle makes another one.
    if server.news.recv().await.is_some() {
        while server.news.try_recv().is_ok() {}
    }
}

/// Returns between half of the time and all of it: machines that woke together spread out.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1000;
    time / 2 + time.mul_f64(random as f64 / 2000.0)
}
