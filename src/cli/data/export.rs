//! `claude-mem export`: writes all memories, one JSON object per line, or as Markdown.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde_json::{Map, Value, json};

use super::markdown;
use crate::cli::arguments::project_filter;
use crate::cli::output::progress::Progress;
use crate::clock;
use crate::config::Environment;
use crate::paths::{Home, with_suffix};
use crate::privacy::redact::Redactor;
use crate::store::files::row_copy::{self, Row};
use crate::store::tables::TABLES;
use crate::store::{self, SCHEMA_VERSION, StoreError};

/// Export all memories
///
/// Writes JSON lines that `claude-mem import` reads, on this machine or another. They contain your
/// prompts and tool output, so keep them as private as the database. --markdown writes notes and
/// learnings to read instead.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem export memory.jsonl\n  claude-mem export | gzip > memory.jsonl.gz\n  claude-mem export --markdown --project my-app notes.md"
)]
pub struct Arguments {
    /// Output file [default: standard output]
    file: Option<PathBuf>,
    /// Write notes and learnings as Markdown
    #[arg(long)]
    markdown: bool,
    /// Only this project: its name or one of its directories
    #[arg(long, requires = "markdown")]
    project: Option<String>,
}

/// Format name in the first line of every export.
pub const FORMAT: &str = "claude-mem-export";

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let database = store::open_to_read(home, 10_000)?;
    let Some(file) = &arguments.file else {
        let mut out = BufWriter::new(io::stdout().lock());
        return match write(&database, arguments.markdown, project.as_deref(), &mut out) {
            Ok(_) => Ok(ExitCode::SUCCESS),
            // The reader has seen enough, as `head` has.
            Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
        };
    };
    let unfinished = with_suffix(file, ".tmp");
    let written = create(&unfinished).and_then(|file| {
        let mut out = BufWriter::new(file);
        let count = write(&database, arguments.markdown, project.as_deref(), &mut out)?;
        out.into_inner()?.sync_all()?;
        Ok(count)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    let count = written.with_context(|| format!("cannot write {}", file.display()))?;
    fs::rename(&unfinished, file)?;
    let exported = if arguments.markdown { "notes" } else { "rows" };
    eprintln!("Exported {count} {exported} to {}.", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Creates a new file: an existing one may be a symlink, or be readable by another user.
fn create(path: &std::path::Path) -> anyhow::Result<File> {
    let _ = fs::remove_file(path);
    Ok(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?)
}

fn write(
    database: &Connection,
    is_markdown: bool,
    project: Option<&str>,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    if is_markdown { markdown::write(database, project, out) } else { write_rows(database, out) }
}

/// Writes a consistent snapshot of the database, even while others write.
fn write_rows(database: &Connection, out: &mut impl Write) -> anyhow::Result<u64> {
    let state = database.unchecked_transaction()?;
    let total: i64 = row_copy::counts(&state)?.values().sum();
    let head = json!({"format": FORMAT, "version": 1, "schema": SCHEMA_VERSION, "program": env!("CARGO_PKG_VERSION"),
                      "exported_at": clock::now(), "rows": total});
    writeln!(out, "{head}")?;
    let progress = Progress::new("writing");
    let mut count = 0;
    for table in &TABLES {
        let mut write_error = None;
        row_copy::read(&state, table, |mut row| {
            if let "user_prompts" | "pending_queue" | "event_log" = table.name {
                redact_raw(&mut row);
            }
            let line = json!({"table": table.name, "row": to_json(&row)});
            write_error = writeln!(out, "{line}").err();
            count += 1;
            progress.set(count, u64::try_from(total).unwrap_or_default());
            // Ends the iteration; `write_error` holds the reason.
            if write_error.is_some() { Err(StoreError::Gone) } else { Ok(()) }
        })
        .or_else(|error| if write_error.is_some() { Ok(()) } else { Err(error) })?;
        write_error.map_or(Ok(()), Err)?;
    }
    out.flush()?;
    Ok(count)
}

/// Redacts text that no worker may have processed yet: prompts, queued events, and rejected input.
fn redact_raw(row: &mut Row) {
    for (name, value) in row.iter_mut() {
        match (name.as_str(), &*value) {
            ("prompt" | "payload" | "last_error" | "data", Sql::Text(text)) => {
                *value = Sql::Text(Redactor::new().redact(text).into_string());
            }
            ("is_raw", _) => *value = Sql::Integer(0),
            _ => {}
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn to_json(row: &Row) -> Map<String, Value> {
    let value = |value: &Sql| match value {
        Sql::Null => Value::Null,
        Sql::Integer(number) => json!(number),
        Sql::Real(number) => json!(number),
        Sql::Text(text) => json!(text),
        Sql::Blob(bytes) => {
            json!({"hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
        }
    };
    row.iter().map(|(name, sql)| (name.clone(), value(sql))).collect()
}

/// Converts a row from its form in an export.
pub fn from_json(row: Map<String, Value>) -> Row {
    let sql = |value: Value| match value {
        Value::Null => Sql::Null,
        Value::Bool(flag) => Sql::Integer(i64::from(flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Sql::Integer(whole),
            None => Sql::Real(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Sql::Text(text),
        Value::Object(object) => blob(&object),
        other => Sql::Text(other.to_string()),
    };
    row.into_iter().map(|(name, value)| (name, sql(value))).collect()
}

fn blob(object: &Map<String, Value>) -> Sql {
    let hex = object.get("hex").and_then(Value::as_str).unwrap_or_default();
    let byte = |at: usize| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    Sql::Blob((0..hex.len()).step_by(2).filter_map(byte).collect())
}
