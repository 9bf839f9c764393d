//! Starts the worker where no service manager does. The hook does not wait for it, and leaves it nothing of its own:
//! a process that holds the hook's output open delays Claude Code.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::paths::Home;

/// The argument that makes `claude-mem` start a worker that nobody waits for.
pub const LAUNCH: &str = "internal-launch";

/// A worker that cannot run is not tried by every hook.
const BETWEEN_TRIES: Duration = Duration::from_secs(60);

/// Starts a worker, unless somebody else is to do that, or it was tried just now.
pub fn start(home: &Home) {
    if home.stopped().exists() || was_tried(&home.start_attempt()) || is_managed(home) {
        return;
    }
    let Some(program) = program() else { return };
    // First: where even this cannot be written, a worker could not work either.
    if note_try(&home.start_attempt()).is_err() {
        return;
    }
    let _ = Command::new(program)
        .arg(LAUNCH)
        .env("CLAUDE_MEM_HOME", home.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}

fn was_tried(marker: &Path) -> bool {
    let Ok(at) = fs::metadata(marker).and_then(|meta| meta.modified()) else { return false };
    // A time in the future is a clock that was set back, and says nothing.
    SystemTime::now().duration_since(at).is_ok_and(|elapsed| elapsed < BETWEEN_TRIES)
}

fn note_try(marker: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(marker)?;
    file.set_modified(SystemTime::now())
}

/// The part of the record of `install` that matters here.
#[derive(Deserialize)]
struct InstallRecord {
    service: Option<String>,
}

fn is_managed(home: &Home) -> bool {
    let Ok(text) = fs::read(home.install_record()) else { return false };
    let service = serde_json::from_slice::<InstallRecord>(&text).ok().and_then(|record| record.service);
    service.is_some_and(|way| way != "own")
}

/// `claude-mem` is in the hook's directory.
fn program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("claude-mem");
    program.exists().then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_counts_for_a_minute_and_not_from_the_future() {
        let scratch = tempfile::tempdir().unwrap();
        let marker = scratch.path().join("marker");
        assert!(!was_tried(&marker));
        note_try(&marker).unwrap();
        assert!(was_tried(&marker));
        let file = OpenOptions::new().write(true).open(&marker).unwrap();
        for at in [SystemTime::now() - BETWEEN_TRIES, SystemTime::now() + Duration::from_secs(3600)] {
            file.set_modified(at).unwrap();
            assert!(!was_tried(&marker));
        }
    }

    #[test]
    fn what_a_manager_starts_is_left_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        for (record, managed) in [
            (None, false),
            (Some(r#"{"service": "systemd"}"#), true),
            (Some(r#"{"service": "launchd"}"#), true),
            (Some(r#"{"service": "own"}"#), false),
            (Some(r#"{"service": null}"#), false),
            (Some("damaged"), false),
        ] {
            if let Some(record) = record {
                fs::write(home.install_record(), record).unwrap();
            }
            assert_eq!(is_managed(&home), managed, "{record:?}");
        }
    }
}
