//! `claude-mem import`: adds an export, a backup, or the database of the TypeScript claude-mem.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rusqlite::{Connection, TransactionBehavior};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::export::{FORMAT, from_json};
use crate::cli::output::progress::Progress;
use crate::clock;
use crate::paths::{Home, create_private_dir};
use crate::store::files::legacy_import::{self, LegacyDatabase};
use crate::store::files::row_copy::{self, Importer, Row, Taken};
use crate::store::tables::{PrimaryTable, TABLES, by_name};
use crate::store::{self, SCHEMA_VERSION};

/// Import an export, a backup, or another claude-mem's database
///
/// Adds missing rows and never changes existing ones, so importing twice is safe. The file is only
/// read. A database of the TypeScript claude-mem is recognised by its tables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem import memory.jsonl\n  gunzip -c memory.jsonl.gz | claude-mem import -\n  claude-mem import ~/.claude-mem/claude-mem.db"
)]
pub struct Arguments {
    /// An export, a backup or a database; - reads an export from standard input [default: the
    /// database that another claude-mem left in the data directory]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rows per transaction. Small, because hooks wait for the lock meanwhile.
const BATCH_ROWS: u64 = 200;

const BUSY_TIMEOUT_MS: u32 = 10_000;

pub fn run(home: &Home, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    legacy_import::use_alternate_path(home)?;
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None if legacy_import::occupies_our_path(home) => home.usual_database(),
        None => bail!("no file given; pass an export, a backup, or another claude-mem's database"),
    };
    let mut intake = Intake::new(home)?;
    if file == Path::new("-") {
        intake.lines(BufReader::new(io::stdin().lock()))?;
    } else if is_database(&file).with_context(|| format!("cannot read {}", file.display()))? {
        intake.database(home, &file)?;
    } else {
        let reader = File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
        intake.lines(BufReader::new(reader)).with_context(|| file.display().to_string())?;
    }
    let outcome = intake.finish()?;
    crate::nudge::send(home);
    if arguments.json {
        outln!("{:#}", json!({"new": outcome.new, "known": outcome.known, "refused": outcome.refused}));
    } else {
        outcome.print();
    }
    Ok(if outcome.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_database(file: &Path) -> io::Result<bool> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut head = Vec::new();
    File::open(file)?.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == MAGIC)
}

/// The outcome of an import.
#[derive(Debug, Default)]
struct ImportOutcome {
    new: BTreeMap<&'static str, u64>,
    known: BTreeMap<&'static str, u64>,
    /// Rows that could not be stored, with the reason.
    refused: Vec<String>,
}

impl ImportOutcome {
    fn print(&self) {
        let (new, known): (u64, u64) = (self.new.values().sum(), self.known.values().sum());
        let rows = if new == 1 { "row" } else { "rows" };
        outln!("Imported {new} {rows}; {known} already existed.");
        for (table, count) in &self.new {
            outln!("  {count:>7} {table}");
        }
        for refused in self.refused.iter().take(10) {
            eprintln!("claude-mem: rejected: {refused}");
        }
        if self.refused.len() > 10 {
            eprintln!("claude-mem: and {} more", self.refused.len() - 10);
        }
    }
}

/// Stores rows in batches, one transaction each.
struct Intake {
    database: Connection,
    importer: Importer,
    outcome: ImportOutcome,
    waiting: Vec<(&'static PrimaryTable, Row)>,
    count: u64,
    total: u64,
    progress: Progress,
}

impl Intake {
    fn new(home: &Home) -> anyhow::Result<Self> {
        Ok(Self {
            database: store::open_for_bulk_change(home, BUSY_TIMEOUT_MS)?,
            importer: Importer::default(),
            outcome: ImportOutcome::default(),
            waiting: Vec::new(),
            count: 0,
            total: 0,
            progress: Progress::new("importing"),
        })
    }

    fn take(&mut self, table: &'static PrimaryTable, row: Row) -> Result<(), store::StoreError> {
        self.waiting.push((table, row));
        if self.waiting.len() as u64 >= BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), store::StoreError> {
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (table, row) in self.waiting.drain(..) {
            self.count += 1;
            match self.importer.take(&transaction, table, row)? {
                Taken::New => *self.outcome.new.entry(table.name).or_default() += 1,
                Taken::Known => *self.outcome.known.entry(table.name).or_default() += 1,
                Taken::Refused(why) => self.outcome.refused.push(format!("{}: {why}", table.name)),
            }
        }
        transaction.commit()?;
        self.progress.set(self.count, self.total);
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<ImportOutcome> {
        self.flush()?;
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.importer.finish(&transaction, clock::now())?;
        transaction.commit()?;
        Ok(self.outcome)
    }

    /// Reads the lines of an export. Reports an invalid line and continues.
    fn lines(&mut self, mut reader: impl BufRead) -> anyhow::Result<()> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        self.total = head(&line)?;
        let mut read = 0;
        for (number, line) in reader.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<ImportLine>(&line).map(|line| (by_name(&line.table), line)) {
                Ok((Some(table), line)) => self.take(table, from_json(line.row))?,
                Ok((None, line)) => {
                    self.outcome.refused.push(format!("line {}: unknown table {}", number + 2, line.table));
                }
                Err(error) => self.outcome.refused.push(format!("line {}: {error}", number + 2)),
            }
            read += 1;
        }
        if read < self.total {
            self.outcome.refused.push(format!("the file ends early: it has {read} of {} rows", self.total));
        }
        Ok(())
    }

    /// Reads a database, ours or the TypeScript program's. Works on a copy, because opening a
    /// database can change it.
    fn database(&mut self, home: &Home, file: &Path) -> anyhow::Result<()> {
        let scratch = home.dir().join("import.tmp");
        create_private_dir(&scratch)?;
        let read = legacy_import::open_copy(file, &scratch).map_err(Into::into).and_then(|copy| {
            if legacy_import::is_legacy(&copy) { self.predecessor(copy) } else { self.own(&copy) }
        });
        let _ = std::fs::remove_dir_all(&scratch);
        read
    }

    fn predecessor(&mut self, copy: Connection) -> anyhow::Result<()> {
        let theirs = LegacyDatabase::new(copy)?;
        self.total = u64::try_from(theirs.count()?).unwrap_or_default();
        theirs.each(|(table, row)| match by_name(table) {
            Some(table) => self.take(table, row),
            None => Ok(()),
        })?;
        Ok(())
    }

    fn own(&mut self, copy: &Connection) -> anyhow::Result<()> {
        let counts = row_copy::counts(copy)?;
        if !counts.contains_key("pending_queue") {
            bail!("this database belongs to another program");
        }
        self.total = u64::try_from(counts.values().sum::<i64>()).unwrap_or_default();
        for table in TABLES.iter().filter(|table| counts.contains_key(table.name)) {
            row_copy::read(copy, table, |row| self.take(table, row))?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct ImportLine {
    table: String,
    row: Map<String, Value>,
}

/// The first line of an export.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    format: String,
    schema: i64,
    rows: u64,
}

/// Checks the first line; returns the number of rows that follow.
fn head(line: &str) -> anyhow::Result<u64> {
    let head: Header = serde_json::from_str(line).unwrap_or_default();
    if head.format != FORMAT {
        bail!("this is not a claude-mem export (the first line is not an export header)");
    }
    let schema = head.schema;
    if schema > SCHEMA_VERSION {
        bail!(
            "a newer claude-mem wrote this export (schema {schema}, supported: {SCHEMA_VERSION}); upgrade claude-mem"
        );
    }
    Ok(head.rows)
}
