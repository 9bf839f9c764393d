//! `claude-mem backup`: a copy of the database, made while it is in use, and checked.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;

use super::lines;
use super::progress::Progress;
use super::status::{held, size};
use crate::context::age;
use crate::paths::Home;
use crate::store::backup::{self, Copy, Reason};
use crate::store::{self, StoreError};
use crate::worker::clock;

/// Copy the database, while it is in use, and check the copy
///
/// The service does so each day and keeps seven (`backup.keep`). Copies that you ask for are kept until you delete them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem backup\n  claude-mem backup --list")]
pub struct Arguments {
    /// List the copies that are there
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        return list(home, arguments.json);
    }
    let database = match store::open_to_read(home, 10_000) {
        Ok(database) => database,
        Err(StoreError::Missing) => bail!("nothing is remembered yet"),
        Err(error) => return Err(error.into()),
    };
    let progress = Progress::new("copying");
    let tell = |done: i32, total: i32| {
        progress.tell(u64::try_from(done).unwrap_or_default(), u64::try_from(total).unwrap_or_default());
    };
    let (copy, checked) = backup::make(&database, &home.backups(), Reason::Asked, clock::now(), tell)?;
    drop(progress);
    if arguments.json {
        say!(
            "{:#}",
            json!({"path": copy.path, "bytes": copy.bytes, "schema": checked.schema, "rows": checked.rows})
        );
        return Ok(ExitCode::SUCCESS);
    }
    let rows = |table| json!(checked.rows.get(table).copied().unwrap_or_default());
    say!("{}", copy.path.display());
    let held = held(&rows("observations"), &rows("sessions"));
    lines::print("", &format!("{}, {held}; checked, and the same as the database.", size(copy.bytes)));
    Ok(ExitCode::SUCCESS)
}

/// What is there, newest first.
pub fn list(home: &Home, as_json: bool) -> anyhow::Result<ExitCode> {
    let copies = backup::list(&home.backups());
    if as_json {
        say!("{:#}", json!(copies));
    } else if copies.is_empty() {
        lines::print(
            "",
            "No backups yet. The service makes one each day; `claude-mem backup` makes one now.",
        );
    } else {
        copies.iter().for_each(print);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(copy: &Copy) {
    let (ago, bytes) = (age::ago(copy.made_at, clock::now()), size(copy.bytes));
    let (reason, path) = (&copy.reason, copy.path.display());
    let wide = format!("{ago:<16} {bytes:>9}  {reason:<24} {path}");
    lines::print_row(&wide, &format!("{ago}, "), &format!("{bytes}, {reason}\n{path}"));
}
