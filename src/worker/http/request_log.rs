//! Logs requests that change data and requests that failed. Queries are not logged: a row for each
//! would cost more than the response.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::clock;
use crate::store::log::{LogEntry, log};
use crate::worker::state::Shared;

/// Never logged: hooks send a nudge with every event, and a search may be a POST.
const NEVER_LOGGED: [&str; 2] = ["/api/nudge", "/api/search"];

/// Serves the request, and logs it if it qualifies. The client does not wait for the log.
pub async fn log_request(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let changes = method != Method::GET && !NEVER_LOGGED.contains(&path.as_str());
    if (changes || response.status().is_server_error())
        && let Ok(running) = shared.running()
    {
        let entry = LogEntry {
            event_type: "request",
            data: json!({"method": method.as_str(), "path": path, "status": response.status().as_u16()}),
            duration_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
            ..LogEntry::default()
        };
        tokio::spawn(async move {
            let _ = running.database.write(move |database| log(database, &entry, clock::now())).await;
        });
    }
    response
}
