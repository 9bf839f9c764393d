//! The health figures in Prometheus format.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::routes::memory_bytes;
use crate::clock;
use crate::store::memory;
use crate::worker::state::Shared;

/// Renders Prometheus' text format. A degraded worker still reports that it is up.
pub async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let mut text = String::new();
    let running = shared.running().ok();
    gauge(&mut text, "up", "1 if the worker is healthy.", f64::from(u8::from(running.is_some())));
    gauge(
        &mut text,
        "uptime_seconds",
        "Seconds since the worker started.",
        shared.started.elapsed().as_secs_f64(),
    );
    if let Some(bytes) = memory_bytes() {
        gauge(&mut text, "resident_memory_bytes", "Resident memory.", bytes as f64);
    }
    if let Some(running) = running {
        if let Ok(stats) = running.queue_stats().await {
            head(&mut text, "queue_rows", "Queue rows by state.", "gauge");
            let states = [
                ("raw", stats.raw),
                ("processing", stats.processing),
                ("done", stats.done),
                ("skipped", stats.skipped),
                ("error", stats.error),
            ];
            for (state, count) in states {
                let _ = writeln!(text, "claude_mem_queue_rows{{state=\"{state}\"}} {count}");
            }
        }
        let day = clock::day_start(clock::now());
        if let Ok(today) =
            running.database.read(move |database| memory::observations_since(database, day)).await
        {
            gauge(&mut text, "observations_today", "Observations made today.", today as f64);
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

fn gauge(text: &mut String, name: &str, help: &str, value: f64) {
    head(text, name, help, "gauge");
    let _ = writeln!(text, "claude_mem_{name} {value}");
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP claude_mem_{name} {help}\n# TYPE claude_mem_{name} {kind}");
}
