//! `claude-mem status`: shows the state of the service on one screen.

use std::process::ExitCode;

use crate::api::{DatabaseStatus, Health, HealthStatus, Overview, ProviderStatus, Recovery, Status};
use crate::cli::client;
use crate::cli::install::record::Record;
use crate::cli::output::fields::Fields;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::wrap::{self, counted};
use crate::cli::service;
use crate::clock::DAY;
use crate::config::{Config, ConfigError, Environment};
use crate::llm::{Choice, choose, guard};
use crate::model::Millis;
use crate::paths::Home;
use crate::store::files::backup::{self, CheckedBackup};
use crate::store::files::recovery;
use crate::store::{self, StoreError, overview};
use crate::text::age;
use crate::worker::system::lock::Lock;
use crate::{clock, spool};

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
const RECENT: Millis = 7 * DAY;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let status = collect(home, environment);
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print(&status, Style::of_stdout());
    }
    let is_healthy = status.service.is_ok() && status.lost_events == 0;
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Collects the status. Also works without a service, from the database alone.
pub fn collect(home: &Home, environment: &Environment) -> Status {
    let now = clock::now();
    // Connecting to the socket would make a service manager start the service, so check the lock
    // first.
    let health = Lock::holder(home).and_then(|_| client::health(home).ok());
    let stopped =
        || Health { reason: Some("run `claude-mem start` to start it".into()), ..Health::default() };
    let settings = Config::load(&home.config(), environment);
    let ceiling = match &settings {
        Ok(config) => config.cost.max_usd_per_day,
        Err(_) => Config::load_forgiving(&home.config(), environment).0.cost.max_usd_per_day,
    };
    let (memory, database) = database(home, now);
    let installed = Record::load(home).settings;
    Status {
        service: health.unwrap_or_else(stopped),
        runs: service::manager(home, environment).description().to_owned(),
        installed: installed.iter().map(|file| file.path.display().to_string()).collect(),
        provider: provider(home, environment, settings.as_ref()),
        settings_problem: settings.as_ref().err().map(ToString::to_string),
        memory,
        database,
        lost_events: spool::dropped(home, environment),
        last_backup_at: backup::list(&home.backups()).first().map(|copy| copy.made_at),
        max_usd_per_day: ceiling,
        now,
    }
}

fn database(home: &Home, now: Millis) -> (Option<Overview>, DatabaseStatus) {
    let bytes = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let file = DatabaseStatus {
        path: home.database(),
        bytes: bytes(home.database()) + bytes(home.wal()),
        ..DatabaseStatus::default()
    };
    let read = store::open_to_read(home, 2000).and_then(|database| {
        let recovery = recovery::last(&database, now - RECENT)?;
        Ok((overview::read(&database, clock::day_start(now))?, recovery))
    });
    match read {
        Ok((overview, recovery)) => {
            let (recovered_at, recovery) = recovery.unzip();
            (Some(overview), DatabaseStatus { recovered_at, recovery, ..file })
        }
        Err(StoreError::Missing) if !backup::list(&home.backups()).is_empty() => {
            let problem = "missing, but there are backups; run `claude-mem restore` to restore the newest";
            (None, DatabaseStatus { problem: Some(problem.into()), ..file })
        }
        Err(error) => (None, DatabaseStatus { problem: Some(error.to_string()), ..file }),
    }
}

/// Returns the provider and the reason for it. The service's environment may differ; its own report
/// takes precedence.
fn provider(
    home: &Home,
    environment: &Environment,
    settings: Result<&Config, &ConfigError>,
) -> ProviderStatus {
    let unusable = |why: String| ProviderStatus { name: None, why, usable: false };
    let usable = |name: &str, why: String| ProviderStatus { name: Some(name.to_owned()), why, usable: true };
    let config = match settings {
        Ok(config) => config,
        Err(error) => return unusable(error.to_string()),
    };
    let program = guard::own_program().unwrap_or_default();
    match choose(config, home, environment, &program) {
        Choice::Llm(llm) => usable(llm.name(), String::new()),
        Choice::Local { why } => usable("local", why),
        Choice::Unusable { why } => unusable(why),
    }
}

fn print(status: &Status, style: Style) {
    print_headline(&status.service, style);
    let mut fields = Fields::default();
    describe_service(status, &mut fields);
    describe_memory(status, &mut fields);
    fields.print(style);
}

/// Prints the state with a dot, as `systemctl status` does.
fn print_headline(service: &Health, style: Style) {
    let tone = match service.status {
        HealthStatus::Ok => Tone::Good,
        HealthStatus::Stopped => Tone::Faint,
        _ => Tone::Bad,
    };
    let version = service.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let running = service.pid.map_or(String::new(), |pid| {
        format!(", pid {pid}, for {}", duration(service.uptime_s.unwrap_or_default()))
    });
    let state = style.tone(tone, service.status.as_str());
    wrap::print(
        "",
        &format!("{} {}{version}: {state}{running}", style.tone(tone, "●"), style.strong("claude-mem")),
    );
    if let Some(reason) = &service.reason {
        wrap::print("  ", &style.tone(tone, &harmless(reason)));
    }
}

fn describe_service(status: &Status, fields: &mut Fields) {
    fields.add("Service", &status.runs);
    let provider = status.service.provider.as_ref().or(status.provider.name.as_ref());
    // The reason applies only if the service runs with the current settings.
    let is_current = provider == status.provider.name.as_ref() && !status.provider.why.is_empty();
    let why = if is_current { format!(": {}", status.provider.why) } else { String::new() };
    fields.add("Provider", format!("{}{why}", provider.map_or("–", String::as_str)));
    fields.add("Settings", status.settings_problem.clone().unwrap_or_default());
}

fn describe_memory(status: &Status, fields: &mut Fields) {
    let (memory, now) = (status.memory.as_ref(), status.now);
    let figure = |of: fn(&Overview) -> i64| memory.map_or("–".to_owned(), |memory| of(memory).to_string());
    let when = |at: Option<Millis>| at.map_or("never".to_owned(), |at| age::ago(at, now));
    let oldest = match memory.and_then(|memory| memory.oldest_waiting_at) {
        Some(at) => format!(", oldest queued {}", age::ago(at, now)),
        None => String::new(),
    };
    let (waiting, failed) = (figure(|memory| memory.waiting), figure(|memory| memory.failed));
    fields.add("Queue", format!("{waiting} waiting, {failed} failed{oldest}"));
    if status.lost_events > 0 {
        let lost = status.lost_events;
        fields.add("Lost events", format!("{lost} could not be stored anywhere; see `claude-mem doctor`"));
    }
    fields.add("Last hook", when(memory.and_then(|memory| memory.last_event_at)));
    fields.add("Last success", when(memory.and_then(|memory| memory.last_success_at)));
    let today = format!(
        "{}, {} tokens in, {} out, ${:.4} of ${:.2}",
        observations(memory.map(|memory| memory.observations_today)),
        figure(|memory| memory.tokens_in_today),
        figure(|memory| memory.tokens_out_today),
        memory.map_or(0.0, |memory| memory.cost_usd_today),
        status.max_usd_per_day
    );
    fields.add("Today", today);
    let rows = held(memory.map(|memory| memory.observations), memory.map(|memory| memory.sessions));
    fields.add("Database", format!("{}, {rows}", size(status.database.bytes)));
    fields.add("", status.database.problem.clone().unwrap_or_default());
    if let Some(recovery) = &status.database.recovery {
        fields.add("", describe_recovery(&when(status.database.recovered_at), recovery));
    }
    fields.add("Last backup", when(status.last_backup_at));
}

fn observations(count: Option<i64>) -> String {
    count.map_or("– observations".into(), |count| counted(count, "observation", "observations"))
}

/// "3 observations in 1 session".
fn held(count: Option<i64>, sessions: Option<i64>) -> String {
    let sessions = sessions.map_or("– sessions".into(), |count| counted(count, "session", "sessions"));
    format!("{} in {sessions}", observations(count))
}

/// The same for a copy of the database.
pub fn held_by_copy(copy: &CheckedBackup) -> String {
    let rows = |table| Some(copy.rows.get(table).copied().unwrap_or_default());
    held(rows("observations"), rows("sessions"))
}

fn describe_recovery(at: &str, recovery: &Recovery) -> String {
    format!(
        "recovered {at}: {} rows from the damaged file, {} from a backup; the damaged file is {}",
        recovery.salvaged.values().sum::<u64>(),
        recovery.restored.values().sum::<u64>(),
        recovery.damaged.as_deref().unwrap_or("–")
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
