//! The HTTP API on the Unix socket: access, limits and error handling. The routes are in
//! [`routes`].

mod activity;
mod context;
mod corrections;
mod error;
mod extract;
mod history;
mod lingering;
mod memories;
mod metrics;
mod request_log;
mod routes;
mod search;
mod session_jobs;
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
use lingering::Lingering;

/// Maximum time to receive the request headers, against clients that send nothing or one byte a
/// second.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for a request, including its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum concurrent connections; further ones wait in the backlog.
const MAX_CONNECTIONS: usize = 256;
/// Grace time after the last accept: a client may just have connected, with its request on the way.
const LAST_REQUESTS: Duration = Duration::from_millis(50);

/// Serves the latest of `listeners` until the worker stops; then finishes the accepted requests.
pub async fn serve(mut listeners: UnboundedReceiver<std::os::unix::net::UnixListener>, shared: Arc<Shared>) {
    let mut stop = shared.stopping.subscribe();
    let router = routes::router(shared);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
                        // Errors of a disconnecting client do not concern us.
                        let _ = connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Most likely too many open files, which passes.
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

/// Accepts the next connection when there is a free slot.
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

type Connection = http1::Connection<TokioIo<Lingering>, hyper_util::service::TowerToHyperService<Service>>;
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
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(Lingering::new(stream)), service)
}

/// Serves only the socket's owner, whatever the mode of the file.
async fn answer(router: Router, request: Request, is_ours: bool) -> axum::response::Response {
    if !is_ours {
        return error::forbidden().into_response();
    }
    match tokio::time::timeout(REQUEST_TIMEOUT, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => error::timeout().into_response(),
    }
}
