//! `claude-mem worker`: runs the service in the foreground.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc::error::TryRecvError;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_file;
use crate::cli::output::log_line::OneLine;
use crate::config::Environment;
use crate::paths::Home;
use crate::worker::system::activation::{Given, Sockets};
use crate::worker::system::lock::{Lock, LockError};
use crate::worker::{self, Signal, Signals, Supervisor, signals};

/// Run the service in the foreground
///
/// Run by systemd and launchd. Uses the sockets they pass, or creates its own, and serves until
/// SIGTERM. SIGHUP reloads the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem worker")]
pub struct Arguments {
    /// Write the log into the data directory instead of stderr
    #[arg(long, hide = true)]
    log_file: bool,
}

pub fn run(home: Home, environment: Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    worker::system::ram::share_arenas();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let given = Given::take();
    start_log(arguments.log_file.then(|| log_file::writer(&home)));
    home.prepare()?;
    let mut signals = signals()?;
    let Some(lock) = take_lock(&home, &mut signals, &given)? else { return Ok(ExitCode::SUCCESS) };
    let sockets = Sockets::open(&home, given)?;
    // One thread is enough: SQLite runs on blocking threads, and providers only wait.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(5))
        .build()?;
    let (version, served) = (env!("CARGO_PKG_VERSION"), home.dir().display().to_string());
    tracing::info!(version, home = served, origin = ?sockets.api_origin, "version {version} serving {served}");
    let _lock = runtime.block_on(worker::run(home, environment, lock, sockets, signals));
    runtime.shutdown_timeout(Duration::from_secs(2));
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Interval between attempts to take a held lock.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// Takes the lock. Under a service manager, waits for another worker that holds it: exiting would
/// only make the manager restart us. Returns none if asked to stop meanwhile.
fn take_lock(home: &Home, signals: &mut Signals, given: &Given) -> Result<Option<Lock>, LockError> {
    let supervisor = Supervisor::from_environment();
    let is_managed = supervisor.listens() || given.is_some();
    let mut is_reported = false;
    loop {
        let held = match Lock::take(home) {
            Err(held @ LockError::Held { .. }) if is_managed => held,
            taken => return taken.map(Some),
        };
        if !std::mem::replace(&mut is_reported, true) {
            tracing::warn!("waiting: {held}");
            supervisor.ready();
            supervisor.status(&format!("waiting: {held}"));
        }
        supervisor.alive();
        std::thread::sleep(LOCK_PAUSE);
        if matches!(signals.try_recv(), Ok(Signal::Stop) | Err(TryRecvError::Disconnected)) {
            return Ok(None);
        }
    }
}

/// Logs to `file` if given, else to the journal if systemd started us, else to stderr. Messages are
/// complete sentences, because the journal shows nothing else by default; fields are for searches.
fn start_log(file: Option<BoxMakeWriter>) {
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    let has_journal = file.is_none() && Environment::has_journal();
    if let Some(journal) = has_journal.then(|| tracing_journald::layer().ok()).flatten() {
        let levels = PriorityMappings { info: Priority::Informational, ..PriorityMappings::new() };
        let journal = journal.with_syslog_identifier("claude-mem".into()).with_priority_mappings(levels);
        return registry.with(journal).init();
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(file.unwrap_or_else(|| BoxMakeWriter::new(std::io::stderr)))
        .with_ansi(false)
        .with_target(false)
        .fmt_fields(OneLine);
    registry.with(lines).init();
}
