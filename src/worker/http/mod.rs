//! The HTTP API on the Unix socket: who may speak, for how long, and how errors look. The routes are in [`routes`].

mod answer;
mod context;
mod curate;
mod metrics;
mod noted;
mod recall;
mod routes;
mod sessions;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

use super::state::Shared;
use answer::ApiError;

/// A client that says nothing, or a byte a second, is let go after this.
const HEADER_PATIENCE: Duration = Duration::from_secs(5);
/// The longest that a request may take, its body included.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);
/// More connections than this wait in the backlog.
const MOST_CONNECTIONS: usize = 256;
/// For a moment after the last accept: a client may just have connected, and its request be on its way.
const LAST_REQUESTS: Duration = Duration::from_millis(50);

/// Serves the latest of `listeners` until the worker stops; then finishes what was accepted.
pub async fn serve(mut listeners: UnboundedReceiver<std::os::unix::net::UnixListener>, shared: Arc<Shared>) {
    let mut stop = shared.stopping.subscribe();
    let router = routes::router(shared);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut listener = None;
    while !*stop.borrow_and_update() {
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            Some(replacement) = listeners.recv() => match asynchronous(replacement) {
                Ok(ready) => listener = Some(ready),
                Err(error) => tracing::error!(%error, "cannot listen: {error}"),
            },
            accepted = accept(listener.as_ref(), &places) => match accepted {
                Ok((stream, place)) => {
                    let connection = graceful.watch(connection(stream, router.clone()));
                    tokio::spawn(async move {
                        // A client that goes away is its own business.
                        let _ = connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Most likely too many open files: they will be fewer in a moment.
                    tracing::warn!(%error, "cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    tokio::time::sleep(LAST_REQUESTS).await;
    graceful.shutdown().await;
}

fn asynchronous(listener: std::os::unix::net::UnixListener) -> std::io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// The next connection, when there is a place for one.
async fn accept(
    listener: Option<&UnixListener>,
    places: &Arc<Semaphore>,
) -> std::io::Result<(UnixStream, OwnedSemaphorePermit)> {
    let (Some(listener), Ok(place)) = (listener, places.clone().acquire_owned().await) else {
        return std::future::pending().await;
    };
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

type Connection = http1::Connection<TokioIo<UnixStream>, hyper_util::service::TowerToHyperService<Service>>;
type Service = tower::util::BoxCloneSyncService<
    hyper::Request<hyper::body::Incoming>,
    axum::response::Response,
    Infallible,
>;

fn connection(stream: UnixStream, router: Router) -> Connection {
    let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
    let service = tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(answer(router, request.map(Body::new), is_ours).await) }
    });
    let service = hyper_util::service::TowerToHyperService::new(Service::new(service));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service)
}

/// Whatever the file's mode says, only its owner is answered.
async fn answer(router: Router, request: Request, is_ours: bool) -> axum::response::Response {
    if !is_ours {
        return ApiError::forbidden("this socket belongs to another user").into_response();
    }
    match tokio::time::timeout(REQUEST_PATIENCE, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => ApiError::timeout().into_response(),
    }
}
