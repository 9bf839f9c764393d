//! The live feed: server-sent events while somebody watches, nothing otherwise.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::MissedTickBehavior;

use crate::api::{Activity, ApiError};
use crate::store::browse::{self, Position};
use crate::worker::http::routes::{health_of, running};
use crate::worker::state::{Running, Shared};

/// Interval between two messages: often enough to look alive, and the same at any rate of events.
const TICK: Duration = Duration::from_millis(250);
/// Ticks without news after which the figures are sent again, which also shows that the feed is alive.
const QUIET_TICKS: u32 = 20;
/// Rows in a message; of more, the newest are sent and the rest is counted.
const ROWS: u32 = 25;

/// `GET /api/activity/live`
pub async fn stream(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    let running = running(&shared)?;
    let start = running.database.read(browse::position).await?;
    // Without a buffer beyond one message: a slow reader gets fewer messages with more in each.
    let (sender, receiver) = channel(1);
    tokio::spawn(feed(shared, running, start, sender));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Feed(receiver))).into_response())
}

async fn feed(shared: Arc<Shared>, running: Arc<Running>, mut seen: Position, sender: Sender<Bytes>) {
    let mut stopping = shared.stopping.subscribe();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut quiet = QUIET_TICKS;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = sender.closed() => return,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
        let Ok(now) = running.database.read(browse::position).await else { return };
        quiet += 1;
        if now == seen && quiet < QUIET_TICKS {
            continue;
        }
        let Ok(message) = message(&shared, &running, seen, now).await else { return };
        if sender.send(message).await.is_err() {
            return;
        }
        (seen, quiet) = (now, 0);
    }
}

async fn message(
    shared: &Shared,
    running: &Running,
    seen: Position,
    now: Position,
) -> Result<Bytes, crate::store::StoreError> {
    let lists = running.database.read(move |database| {
        Ok((
            browse::events_since(database, seen.event, ROWS)?,
            browse::notes_since(database, seen.note, ROWS)?,
        ))
    });
    let (events, notes) = lists.await?;
    let activity = Activity {
        health: health_of(shared).await,
        queue: running.queue_stats().await?,
        events,
        notes,
        errors: Vec::new(),
        arrived: now.event - seen.event,
    };
    let json = serde_json::to_string(&activity).unwrap_or_default();
    Ok(Bytes::from(format!("data: {json}\n\n")))
}

/// The messages as a body.
struct Feed(Receiver<Bytes>);

impl hyper::body::Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
    }
}
