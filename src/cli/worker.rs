//! `claude-mem worker`: the service in the foreground.

use std::process::ExitCode;
use std::time::Duration;

use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_file;
use super::log_line::OneLine;
use crate::config::Environment;
use crate::paths::Home;
use crate::worker::activation::{Given, Sockets};
use crate::worker::lock::Lock;
use crate::worker::{self, signals};

/// Run the service in the foreground
///
/// systemd and launchd run this. It takes their sockets, or makes its own, and serves until SIGTERM. SIGHUP reloads the
/// settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem worker")]
pub struct Arguments {
    /// Write the log into the data directory instead of stderr
    #[arg(long, hide = true)]
    log_file: bool,
}

pub fn run(home: Home, environment: Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    worker::memory::share_arenas();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let given = Given::take();
    start_log(arguments.log_file.then(|| log_file::writer(&home)));
    home.prepare()?;
    let signals = signals()?;
    let lock = Lock::take(&home)?;
    let sockets = Sockets::open(&home, given)?;
    // One thread: the work is SQLite's, which has threads of its own, and the providers', which wait.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(5))
        .build()?;
    let (version, served) = (env!("CARGO_PKG_VERSION"), home.dir().display().to_string());
    tracing::info!(version, home = served, origin = ?sockets.api_origin, "version {version} serves {served}");
    let _lock = runtime.block_on(worker::run(home, environment, lock, sockets, signals));
    runtime.shutdown_timeout(Duration::from_secs(2));
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// To `file` if there is one, else to the journal where systemd started us, else to stderr. A message tells everything, because
/// people see nothing else of the journal; its fields are for those who search.
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
