//! A scratch home, and the real worker on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use claude_mem::model::{Event, EventBody};
use claude_mem::paths::Home;
use claude_mem::store::{self, Recorded};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

/// Events that are stored in one transaction.
const AT_ONCE: usize = 500;
/// Maximum time without progress of the queue.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time without a commit after which the worker counts as idle: it may finish work after the last row of the queue.
const QUIET: Duration = Duration::from_millis(500);
/// Time for the worker to stop before it is killed.
const STOP: Duration = Duration::from_secs(15);

/// A directory that stands for the user's home. Nothing outside of it is touched.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// Creates it, with this `config.toml`.
    pub fn new(config: &str) -> Result<Self> {
        let scratch = Self { dir: tempfile::tempdir()? };
        scratch.home().prepare()?;
        fs::write(scratch.home().config(), config)?;
        Ok(scratch)
    }

    pub fn home(&self) -> Home {
        Home::at(self.dir.path().join("mem"))
    }

    /// Opens the database for reading.
    pub fn database(&self) -> Result<Connection> {
        Ok(store::open_to_read(&self.home(), 10_000)?)
    }

    /// Records the events as the hooks do. Returns the number of rows that the queue got.
    pub fn record(&self, events: &[Event]) -> Result<i64> {
        let mut database = store::open_for_hook(&self.home(), 10_000)?;
        let mut rows = 0;
        for batch in events.chunks(AT_ONCE) {
            let recorded = store::record_all(&mut database, batch)?;
            let is_row = |(event, recorded): &(&Event, Recorded)| {
                *recorded == Recorded::New && !matches!(event.body, EventBody::Start { .. })
            };
            rows += batch.iter().zip(recorded).filter(is_row).count() as i64;
        }
        Ok(rows)
    }

    /// Starts a worker with these variables.
    pub fn start_worker(&self, variables: &[(&str, &str)]) -> Result<Worker> {
        let here = self.dir.path();
        let below = |name: &str| made(here.join(name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_claude-mem"));
        command.arg("worker").env_clear().env("HOME", here).env("CLAUDE_MEM_HOME", self.home().dir());
        for name in
            ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]
        {
            command.env(name, below(name)?);
        }
        command.env("CLAUDE_CONFIG_DIR", below("claude")?).envs(variables.iter().copied());
        let log = fs::File::create(here.join("worker.stderr"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Worker(command.spawn()?))
    }

    /// Waits until the worker has nothing left to do. Returns the time until the queue was empty.
    pub fn drain(&self, worker: &mut Worker) -> Result<Duration> {
        let (database, began) = (self.database()?, Instant::now());
        let (mut open, mut changed) = (i64::MAX, Instant::now());
        while open > 0 {
            if worker.0.try_wait()?.is_some() {
                bail!("the worker ended: {}", fs::read_to_string(self.dir.path().join("worker.stderr"))?);
            }
            let now = open_rows(&database)?;
            if now != open {
                (open, changed) = (now, Instant::now());
            } else if changed.elapsed() > PATIENCE {
                eprintln!("warning: gave up waiting for {open} rows of the queue");
                break;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(began.elapsed())
    }

    /// Waits until the worker stops committing.
    pub fn settle(&self) -> Result<()> {
        let database = self.database()?;
        let version = || database.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0));
        let (mut last, deadline) = (version()?, Instant::now() + PATIENCE);
        loop {
            std::thread::sleep(QUIET);
            let now = version()?;
            if now == last || Instant::now() > deadline {
                return Ok(());
            }
            last = now;
        }
    }
}

fn made(directory: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

fn open_rows(database: &Connection) -> Result<i64> {
    let sql = "SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing')";
    Ok(database.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// A running worker; killed when dropped.
pub struct Worker(Child);

impl Worker {
    /// The most memory it has had, in MB; none where there is no /proc.
    pub fn peak_mb(&self) -> Option<f64> {
        let status =
            fs::read_to_string(Path::new("/proc").join(self.0.id().to_string()).join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
    }

    /// Stops it and waits.
    pub fn stop(mut self) -> Result<()> {
        if let Some(process) = Pid::from_raw(self.0.id().try_into()?) {
            kill_process(process, Signal::TERM)?;
        }
        let deadline = Instant::now() + STOP;
        while self.0.try_wait()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
