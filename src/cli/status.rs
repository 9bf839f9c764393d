//! `claude-mem status`: shows the state of the service on one screen.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::install::record::Record;
use super::lines::{self, counted};
use super::{client, service};
use crate::config::{Config, ConfigError, Environment};
use crate::context::age;
use crate::llm::{Choice, choose, guard};
use crate::model::Millis;
use crate::paths::Home;
use crate::spool;
use crate::store::{self, StoreError, backup, overview, recovery};
use crate::worker::clock;
use crate::worker::lock::Lock;

/// Show service status
///
/// Exits with 0 if the service is healthy, else with 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem status --json")]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Period during which a recovery is reported: one week.
const RECENT: Millis = 7 * 24 * 60 * 60_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let status = collect(home, environment);
    if arguments.json {
        outln!("{status:#}");
    } else {
        print(&status);
    }
    let is_healthy = status["service"]["status"] == "ok" && status["lost_events"] == 0;
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Collects everything as JSON. Also works without a service, from the database alone.
pub fn collect(home: &Home, environment: &Environment) -> Value {
    let now = clock::now();
    // Connecting to the socket would make a service manager start the service, so check the lock
    // first.
    let health = Lock::holder(home).and_then(|_| client::get(&home.socket(), "/api/health").ok());
    let service = health
        .unwrap_or_else(|| json!({"status": "stopped", "reason": "run `claude-mem start` to start it"}));
    let facts = store::open_to_read(home, 2000).and_then(|database| {
        let recovery = recovery::last(&database, now - RECENT)?;
        Ok((overview::read(&database, clock::day_start(now))?, recovery))
    });
    let copies = backup::list(&home.backups());
    let (memory, recovered, problem) = match facts {
        Ok((facts, recovery)) => (serde_json::to_value(facts).unwrap_or_default(), recovery, Value::Null),
        Err(StoreError::Missing) if !copies.is_empty() => {
            let problem = "missing, but there are backups; run `claude-mem restore` to restore the newest";
            (Value::Null, None, json!(problem))
        }
        Err(error) => (Value::Null, None, json!(error.to_string())),
    };
    let settings = Config::load(&home.config(), environment);
    let ceiling = match &settings {
        Ok(config) => config.cost.max_usd_per_day,
        Err(_) => Config::load_forgiving(&home.config(), environment).0.cost.max_usd_per_day,
    };
    let bytes = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    json!({
        "service": service,
        "runs": service::manager(home, environment).description(),
        "installed": Record::load(home).settings.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>(),
        "provider": provider(home, environment, settings.as_ref()),
        "settings_problem": settings.as_ref().err().map(ToString::to_string),
        "memory": memory,
        "database": {
            "path": home.database(), "bytes": bytes(home.database()) + bytes(home.log()), "problem": problem,
            "recovered_at": recovered.as_ref().map(|(at, _)| at), "recovery": recovered.as_ref().map(|(_, data)| data),
        },
        "lost_events": spool::dropped(home, environment),
        "last_backup_at": copies.first().map(|copy| copy.made_at),
        "max_usd_per_day": ceiling,
        "now": now,
    })
}

/// Returns the provider and the reason for it. The service's environment may differ; its own report
/// takes precedence.
fn provider(home: &Home, environment: &Environment, settings: Result<&Config, &ConfigError>) -> Value {
    let config = match settings {
        Ok(config) => config,
        Err(error) => return json!({"name": null, "why": error.to_string(), "usable": false}),
    };
    let program = guard::own_program().unwrap_or_default();
    match choose(config, home, environment, &program) {
        Choice::Llm(llm) => json!({"name": llm.name(), "why": "", "usable": true}),
        Choice::Local { why } => json!({"name": "local", "why": why, "usable": true}),
        Choice::Unusable { why } => json!({"name": null, "why": why, "usable": false}),
    }
}

fn print(status: &Value) {
    let (service, memory) = (&status["service"], &status["memory"]);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        other => other.to_string(),
    };
    let now = status["now"].as_i64().unwrap_or_default();
    let when = |value: &Value| value.as_i64().map_or("never".to_owned(), |at| age::ago(at, now));
    let line = |name: &str, text: &str| lines::print(&format!("{name:<14}"), text);
    match service["pid"].as_u64() {
        Some(pid) => line(
            "service",
            &format!(
                "{}, pid {pid}, up {}, version {}",
                text(&service["status"]),
                duration(service["uptime_s"].as_u64().unwrap_or_default()),
                text(&service["version"])
            ),
        ),
        None => line("service", &text(&service["status"])),
    }
    if let Some(reason) = service["reason"].as_str() {
        line("", reason);
    }
    line("runs", &text(&status["runs"]));
    let provider =
        if service["provider"].is_string() { &service["provider"] } else { &status["provider"]["name"] };
    // The reason applies only if the service runs with the current settings.
    let why = status["provider"]["why"].as_str().filter(|why| !why.is_empty());
    let why = why.filter(|_| *provider == status["provider"]["name"]);
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    line("provider", &format!("{}{why}", text(provider)));
    if let Some(problem) = status["settings_problem"].as_str() {
        line("settings", problem);
    }
    let oldest = match memory["oldest_waiting_at"].as_i64() {
        Some(at) => format!(", oldest queued {}", age::ago(at, now)),
        None => String::new(),
    };
    line(
        "queue",
        &format!("{} waiting, {} failed{oldest}", text(&memory["waiting"]), text(&memory["failed"])),
    );
    if let Some(lost) = status["lost_events"].as_u64().filter(|lost| *lost > 0) {
        line("lost events", &format!("{lost} could not be stored anywhere; see `claude-mem doctor`"));
    }
    line("last success", &when(&memory["last_success_at"]));
    line("last hook", &when(&memory["last_event_at"]));
    line(
        "today",
        &format!(
            "{}, {} tokens in, {} out, ${:.4} of ${:.2}",
            observations(&memory["observations_today"]),
            text(&memory["tokens_in_today"]),
            text(&memory["tokens_out_today"]),
            memory["cost_usd_today"].as_f64().unwrap_or_default(),
            status["max_usd_per_day"].as_f64().unwrap_or_default()
        ),
    );
    let bytes = size(status["database"]["bytes"].as_u64().unwrap_or_default());
    line("database", &format!("{bytes}, {}", held(&memory["observations"], &memory["sessions"])));
    if let Some(problem) = status["database"]["problem"].as_str() {
        line("", problem);
    }
    if status["database"]["recovered_at"].is_i64() {
        let at = when(&status["database"]["recovered_at"]);
        line("", &describe_recovery(&at, &status["database"]["recovery"]));
    }
    line("last backup", &when(&status["last_backup_at"]));
}

fn observations(count: &Value) -> String {
    count.as_i64().map_or("– observations".into(), |count| counted(count, "observation", "observations"))
}

/// "3 observations in 1 session".
pub fn held(count: &Value, sessions: &Value) -> String {
    let sessions =
        sessions.as_i64().map_or("– sessions".into(), |count| counted(count, "session", "sessions"));
    format!("{} in {sessions}", observations(count))
}

fn describe_recovery(at: &str, recovery: &Value) -> String {
    let sum = |of: &Value| of.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum::<u64>();
    format!(
        "recovered {at}: {} rows from the damaged file, {} from a backup; the damaged file is {}",
        sum(&recovery["salvaged"]),
        sum(&recovery["restored"]),
        recovery["damaged"].as_str().unwrap_or("–")
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns a human-readable size.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
