//! `claude-mem worker`: the service in the foreground.

use std::process::ExitCode;
use std::time::Duration;

use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
pub struct Arguments {}

pub fn run(home: Home, environment: Environment) -> anyhow::Result<ExitCode> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let given = Given::take();
    start_log();
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

/// To the journal where systemd started us, to stderr otherwise. A message tells everything, because people see nothing else
/// in either; its fields are for those who search the journal.
fn start_log() {
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    let journal = Environment::has_journal().then(|| tracing_journald::layer().ok()).flatten();
    match journal {
        Some(journal) => {
            let levels = PriorityMappings { info: Priority::Informational, ..PriorityMappings::new() };
            let journal = journal.with_syslog_identifier("claude-mem".into()).with_priority_mappings(levels);
            registry.with(journal).init();
        }
        None => {
            let message_alone = format::debug_fn(|writer, field, value| match field.name() {
                "message" => write!(writer, "{value:?}"),
                _ => Ok(()),
            });
            let plain = tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(false)
                .with_target(false)
                .fmt_fields(message_alone);
            registry.with(plain).init();
        }
    }
}
