//! The loopback port: accepts connections, applies the [guard](super::access::guard), and ends when nobody looks.

pub mod alive;
mod connections;
pub mod handover;
pub mod presence;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener};
use tower::ServiceExt;

use super::access::guard::{self, Permit};
use super::{Viewer, reply};
use crate::worker::system::ram::{self, TrimTimer};
use connections::{Connection, Connections};

/// Maximum time to receive a request's head, and between two requests of a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time until a response begins.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the presence of pages is checked.
const PRESENCE_CHECK: Duration = Duration::from_millis(250);
/// Attempts to find a port that is free on both loopback addresses.
const PORT_ATTEMPTS: usize = 20;

/// The port.
pub struct Port {
    listener: TcpListener,
    /// The same port of the IPv6 loopback address, bound and never listened on: browsers try it first, so nobody else may
    /// have it.
    _reserved: Option<TcpSocket>,
}

impl Port {
    /// Binds a free port of 127.0.0.1.
    pub async fn bind() -> io::Result<Self> {
        for _ in 0..PORT_ATTEMPTS {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let twin = SocketAddr::from((Ipv6Addr::LOCALHOST, listener.local_addr()?.port()));
            match reserve(twin) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                reserved => return Ok(Self { listener, _reserved: reserved.ok() }),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Its number.
    pub fn number(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }
}

fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v6()?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves until nobody looks any more.
pub async fn serve(viewer: Arc<Viewer>, port: Port, handover: Option<UnixListener>, router: Router) {
    let mut connections = Connections::default();
    let mut check = tokio::time::interval(PRESENCE_CHECK);
    // Most code runs once: a bridge that waits for the next page needs little of it in memory.
    let mut trim = TrimTimer::after_start();
    while !viewer.presence.is_over(Instant::now()) {
        tokio::select! {
            _ = check.tick() => {
                if trim.take_due() {
                    tokio::task::spawn_blocking(ram::release_memory);
                }
            }
            () = answer_second(handover.as_ref(), &viewer) => {}
            accepted = port.listener.accept() => match accepted {
                Ok((stream, client)) => {
                    trim.reset();
                    let Ok(server) = stream.local_addr() else { continue };
                    let connection = Arc::new(Connection::new(client, server));
                    let task = tokio::spawn(converse(stream, Arc::clone(&connection), Arc::clone(&viewer), router.clone()));
                    connections.add(connection, task.abort_handle());
                }
                // Most likely too many open files, which passes.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn answer_second(handover: Option<&UnixListener>, viewer: &Viewer) {
    match handover {
        Some(listener) => handover::answer(listener, || viewer.entry()).await,
        None => std::future::pending().await,
    }
}

async fn converse(stream: TcpStream, connection: Arc<Connection>, viewer: Arc<Viewer>, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (connection, viewer, router) = (Arc::clone(&connection), Arc::clone(&viewer), router.clone());
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), &connection, &viewer, router).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // Errors of a disconnecting client do not concern us.
    let _ = serving.await;
}

async fn answer(request: Request, connection: &Connection, viewer: &Viewer, router: Router) -> Response {
    let (parts, body) = request.into_parts();
    let response = match guard::check(&parts, &viewer.authority, &viewer.access) {
        Err(refusal) => reply::refused(refusal.status(), refusal.message()),
        Ok(Permit::Entry) => {
            let token = parts.uri.path().trim_start_matches(guard::ENTER);
            enter(viewer, connection, token, reply::is_cross_site(&parts.headers))
        }
        Ok(Permit::Entered) if !connection.is_ours() => reply::refused(
            axum::http::StatusCode::FORBIDDEN,
            "The viewer belongs to another user of this machine.",
        ),
        Ok(Permit::Entered) => {
            connection.note_entered();
            let request = Request::from_parts(parts, body);
            match tokio::time::timeout(REQUEST_TIMEOUT, router.oneshot(request)).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    reply::refused(axum::http::StatusCode::GATEWAY_TIMEOUT, "The request took too long.")
                }
            }
        }
    };
    reply::with_policies(response)
}

/// Exchanges a token for the cookie. The owner of the connection is checked first, so that nobody else uses the token up.
fn enter(viewer: &Viewer, connection: &Connection, token: &str, is_from_file: bool) -> Response {
    if !connection.is_ours() || !viewer.access.redeem(token, Instant::now()) {
        let message = "This address has been used or is too old. Run `claude-mem open` for a new one.";
        return reply::refused(axum::http::StatusCode::FORBIDDEN, message);
    }
    connection.note_entered();
    viewer.presence.note_request(Instant::now());
    viewer.forget_entry_page();
    reply::entered(&viewer.access.set_cookie(), is_from_file).into_response()
}
