//! `claude-mem worker`: the service in the foreground.

use std::process::ExitCode;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_file;
use crate::config::Environment;
use crate::paths::Home;
use crate::worker::activation::Sockets;
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
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    start_log(if arguments.log_file { log_file::writer(&home) } else { BoxMakeWriter::new(std::io::stderr) });
    home.prepare()?;
    let signals = signals()?;
    let lock = Lock::take(&home)?;
    let sockets = Sockets::open(&home)?;
    // One thread: the work is SQLite's, which has threads of its own, and the providers', which wait.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(5))
        .build()?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), home = %home.dir().display(), origin = ?sockets.api_origin, "serving");
    let _lock = runtime.block_on(worker::run(home, environment, lock, sockets, signals));
    runtime.shutdown_timeout(Duration::from_secs(2));
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// To the journal where systemd started us, to `otherwise` if not.
fn start_log(otherwise: BoxMakeWriter) {
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    let journal = Environment::has_journal().then(|| tracing_journald::layer().ok()).flatten();
    match journal {
        Some(journal) => registry.with(journal.with_syslog_identifier("claude-mem".into())).init(),
        None => {
            let plain =
                tracing_subscriber::fmt::layer().with_writer(otherwise).with_ansi(false).with_target(false);
            registry.with(plain).init();
        }
    }
}
