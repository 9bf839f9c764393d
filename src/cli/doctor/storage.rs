//! Checks of the files on disk: data directory, settings, database, backups, free space.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::Doctor;
use super::finding::Finding;
use crate::cli::service::status::size;
use crate::clock::{self, DAY};
use crate::config::Config;
use crate::model::Millis;
use crate::paths::with_suffix;
use crate::store::files::{backup, row_copy};
use crate::store::{self, SCHEMA_VERSION, StoreError};
use crate::text::age;
use crate::worker::system::activation;

pub fn data_directory(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "data directory";
    const WHY: &str = "it holds prompts and tool output, which must stay private";
    let home = doctor.home;
    let shown = home.dir().display();
    if let Err(error) = activation::check_length(&home.socket()) {
        return Finding::bad(
            NAME,
            error.to_string(),
            "the service cannot be reached",
            "set CLAUDE_MEM_HOME to a shorter path",
        );
    }
    let Ok(meta) = fs::metadata(home.dir()) else {
        if doctor.may_fix && home.prepare().is_ok() {
            return Finding::fixed(NAME, format!("{shown} was missing and has been created"));
        }
        return Finding::bad(
            NAME,
            format!("{shown} does not exist"),
            "nothing can be recorded",
            "claude-mem install",
        );
    };
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Finding::bad(
            NAME,
            format!("{shown} belongs to user {}", meta.uid()),
            WHY,
            "set CLAUDE_MEM_HOME to a directory of your own",
        );
    }
    if meta.mode() & 0o700 != 0o700 {
        let mode = fs::Permissions::from_mode(0o700);
        if doctor.may_fix && fs::set_permissions(home.dir(), mode).is_ok() {
            return Finding::fixed(
                NAME,
                format!("{shown} was not readable and writable for you; permissions fixed"),
            );
        }
        let found = format!("you have no read and write permission for {shown}");
        return Finding::bad(NAME, found, "nothing can be recorded", "claude-mem doctor --fix");
    }
    let open: Vec<PathBuf> = private_files(doctor).into_iter().filter(is_open_to_others).collect();
    if open.is_empty() {
        return Finding::good(NAME, format!("{shown}, private"));
    }
    let names = open.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if doctor.may_fix && open.iter().all(|path| close_to_others(path).is_ok()) {
        return Finding::fixed(NAME, format!("other users could read {names}; permissions fixed"));
    }
    Finding::bad(NAME, format!("other users can read {names}"), WHY, "claude-mem doctor --fix")
}

fn private_files(doctor: &Doctor<'_>) -> Vec<PathBuf> {
    let home = doctor.home;
    let database = home.database();
    let files = ["", "-wal", "-shm"].map(|suffix| with_suffix(&database, suffix)).into_iter();
    let others = ["credentials", "environment", "worker.sock"].map(|name| home.dir().join(name));
    let directories = [home.dir().to_owned(), home.spool(), home.backups(), home.damaged()];
    files.chain(others).chain(directories).filter(|path| path.exists()).collect()
}

fn is_open_to_others(path: &PathBuf) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o077 != 0)
}

fn close_to_others(path: &PathBuf) -> std::io::Result<()> {
    let mode = fs::metadata(path)?.mode() & 0o700;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub fn settings(doctor: &Doctor<'_>) -> Finding {
    let file = doctor.home.config();
    match Config::load(&file, doctor.environment) {
        Ok(_) if file.exists() => Finding::good("settings", format!("{} is valid", file.display())),
        Ok(_) => Finding::good("settings", "the defaults"),
        Err(error) => Finding::bad(
            "settings",
            error.to_string(),
            "the service does not work until it is fixed; hooks use the default for that setting",
            format!("edit {}, then `claude-mem config check`", file.display()),
        ),
    }
}

pub fn database(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "database";
    let shown = doctor.home.database().display().to_string();
    let opened =
        store::open_to_read(doctor.home, 5000).and_then(|database| store::files::check::pages(&database));
    match opened {
        Ok(()) => Finding::good(NAME, format!("{shown} is intact, schema {SCHEMA_VERSION}")),
        Err(error) if error.is_damage() => damaged(format!("{shown} is damaged: {}", error.cause())),
        Err(StoreError::Missing) if !backup::list(&doctor.home.backups()).is_empty() => Finding::bad(
            NAME,
            format!("{shown} is missing, but there are backups"),
            "all memories are gone",
            "claude-mem restore",
        ),
        Err(StoreError::Missing) => Finding::good(NAME, "none yet; the first hook creates it"),
        Err(error @ StoreError::Older(_)) => Finding::bad(
            NAME,
            error.to_string(),
            "hooks spool events until it is migrated",
            "claude-mem restart",
        ),
        Err(error @ StoreError::Newer { .. }) => Finding::bad(
            NAME,
            error.to_string(),
            "this version cannot use a newer schema; events are spooled",
            "install the newer version again (`make install`)",
        ),
        Err(error @ StoreError::Foreign) => Finding::bad(
            NAME,
            format!("{shown}: {error}"),
            "events are spooled until our database has a path of its own",
            "claude-mem restart",
        ),
        Err(error) => Finding::bad(
            NAME,
            format!("{shown}: {error}"),
            "events are spooled until it can be used",
            "claude-mem logs",
        ),
    }
}

fn damaged(found: String) -> Finding {
    Finding::bad(
        "database",
        found,
        "memories may be lost",
        "claude-mem restart: the service recovers it from the readable pages and the newest backup",
    )
}

/// Maximum age of the newest backup. An older one means that no backups are being made.
const OLD_MS: Millis = 3 * DAY;

pub fn backups(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "backups";
    let now = clock::now();
    let copies = backup::list(&doctor.home.backups());
    let counts = store::open_to_read(doctor.home, 2000).and_then(|database| row_copy::counts(&database));
    let sessions =
        counts.as_ref().ok().and_then(|counts| counts.get("sessions").copied()).unwrap_or_default();
    let Some(newest) = copies.first() else {
        return if sessions == 0 || doctor.config.backup.keep == 0 {
            Finding::good(NAME, "none due")
        } else {
            Finding::good(NAME, "none yet; the service makes one within a day")
        };
    };
    let found = format!("{}, the newest {}", copies.len(), age::ago(newest.made_at, now));
    if doctor.config.backup.keep > 0 && sessions > 0 && now - newest.made_at > OLD_MS {
        return Finding::note(
            NAME,
            found,
            "everything since then is in no backup",
            "see `claude-mem logs` for the reason; run `claude-mem backup` to make one now",
        );
    }
    let kept = backup::open(&newest.path).and_then(|database| row_copy::counts(&database));
    let of = |counts: &std::collections::BTreeMap<&str, i64>| {
        counts.get("observations").copied().unwrap_or_default()
    };
    match (kept.as_ref().map(of), counts.as_ref().map(of)) {
        (Ok(kept), Ok(now)) if (kept > 20 && now * 2 < kept) || (kept > 0 && now == 0) => Finding::note(
            NAME,
            format!("{found}; it has {kept} observations, the database {now}"),
            "if you did not delete them, something else did",
            "claude-mem restore, or claude-mem import FILE to add the missing ones",
        ),
        _ => Finding::good(NAME, found),
    }
}

/// Free bytes below which SQLite soon fails.
const TOO_LITTLE: u64 = 100_000_000;
const LITTLE: u64 = 1_000_000_000;

pub fn disk(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "disk";
    const WHY: &str = "on a full disk events are lost";
    let Ok(space) = rustix::fs::statvfs(doctor.home.dir()) else {
        return Finding::note(NAME, "free space unknown", WHY, "");
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let found = format!("{} free", size(free));
    match free {
        0..TOO_LITTLE => {
            Finding::bad(NAME, found, WHY, "free some space, or move the data directory (CLAUDE_MEM_HOME)")
        }
        TOO_LITTLE..LITTLE => Finding::note(NAME, found, WHY, "free some space"),
        _ => Finding::good(NAME, found),
    }
}
