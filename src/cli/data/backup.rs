//! `claude-mem backup`: copies the database while it is in use, and verifies the copy.

use std::process::ExitCode;

use serde_json::json;

use crate::cli::output::progress::Progress;
use crate::cli::output::wrap;
use crate::cli::service::status::{held_by_copy, size};
use crate::clock;
use crate::paths::Home;
use crate::store;
use crate::store::files::backup::{self, Copy, Reason};
use crate::text::age;

/// Back up the database while it is in use, and verify the copy
///
/// The service does this daily and keeps seven copies (`backup.keep`). Backups you make yourself
/// are kept until you delete them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem backup\n  claude-mem backup --list")]
pub struct Arguments {
    /// List existing backups
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
    let database = store::open_to_read(home, 10_000)?;
    let progress = Progress::new("copying");
    let report = |done: i32, total: i32| {
        progress.set(u64::try_from(done).unwrap_or_default(), u64::try_from(total).unwrap_or_default());
    };
    let (copy, checked) = backup::make(&database, &home.backups(), Reason::Asked, clock::now(), report)?;
    drop(progress);
    if arguments.json {
        outln!(
            "{:#}",
            json!({"path": copy.path, "bytes": copy.bytes, "schema": checked.schema, "rows": checked.rows})
        );
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{}", copy.path.display());
    let held = held_by_copy(&checked);
    wrap::print("", &format!("{}, {held}; verified against the database.", size(copy.bytes)));
    Ok(ExitCode::SUCCESS)
}

/// Prints the backups, newest first.
pub fn list(home: &Home, as_json: bool) -> anyhow::Result<ExitCode> {
    let copies = backup::list(&home.backups());
    if as_json {
        outln!("{:#}", json!(copies));
    } else if copies.is_empty() {
        wrap::print(
            "",
            "No backups yet. The service makes one a day; run `claude-mem backup` to make one now.",
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
    wrap::print_row(&wide, &format!("{ago}, "), &format!("{bytes}, {reason}\n{path}"));
}
