//! Connections of pages that are open: they carry the live feed, or only show that somebody looks.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use tokio::time::Sleep;

use super::presence::Visit;
use crate::viewer::Viewer;

/// Interval of comments on a connection that carries nothing else: they reveal a page that is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// `GET /alive`: a connection that lasts as long as the page; `?hidden=1` reports a hidden page once.
pub async fn alive(
    State(viewer): State<Arc<Viewer>>,
    Query(fields): Query<HashMap<String, String>>,
) -> Response {
    if fields.contains_key("hidden") {
        viewer.presence.note_hidden(Instant::now());
        return StatusCode::NO_CONTENT.into_response();
    }
    let beat = Heartbeat { next: Box::pin(tokio::time::sleep(Duration::ZERO)) };
    let body = Body::new(CountedBody::new(Body::new(beat), viewer.presence.enter()));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// A body that counts as a visit until it is dropped.
pub struct CountedBody {
    body: Body,
    _visit: Visit,
}

impl CountedBody {
    /// Wraps a body.
    pub fn new(body: Body, visit: Visit) -> Self {
        Self { body, _visit: visit }
    }
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

struct Heartbeat {
    next: Pin<Box<Sleep>>,
}

impl hyper::body::Body for Heartbeat {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        std::task::ready!(self.next.as_mut().poll(cx));
        self.next.as_mut().reset(tokio::time::Instant::now() + HEARTBEAT);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": open\n\n")))))
    }
}
