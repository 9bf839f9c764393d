//! `claude-mem import`: an export, a backup, or the database of the TypeScript claude-mem, added to what is remembered.

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
use super::progress::Progress;
use crate::paths::{Home, create_private_dir};
use crate::store::predecessor::{self, Predecessor};
use crate::store::rows::{self, Importer, Row, Taken};
use crate::store::tables::{TABLES, Table, by_name};
use crate::store::{self, SCHEMA_VERSION, upkeep};

/// Take in an export, or another claude-mem's database
///
/// Adds what is not there yet, and changes nothing of what is: importing twice is importing once. The file is only read. The
/// database of the TypeScript claude-mem is recognised by its tables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem import memory.jsonl\n  gunzip -c memory.jsonl.gz | claude-mem import -\n  claude-mem import ~/.claude-mem/claude-mem.db"
)]
pub struct Arguments {
    /// An export, a backup, or a database; - reads an export from the pipe. Without it: the database that another claude-mem
    /// left in our data directory
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rows in one transaction: hooks wait for the lock only so long.
const AT_ONCE: u64 = 200;

const PATIENCE_MS: u32 = 10_000;

pub fn run(home: &Home, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    predecessor::settle_beside(home)?;
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None if predecessor::is_in_our_place(home) => home.usual_database(),
        None => bail!("name a file: an export, a backup, or another claude-mem's database"),
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
    let told = intake.finish()?;
    crate::hook::nudge(home);
    if arguments.json {
        say!("{:#}", json!({"new": told.new, "known": told.known, "refused": told.refused}));
    } else {
        told.print();
    }
    Ok(if told.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_database(file: &Path) -> io::Result<bool> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut head = Vec::new();
    File::open(file)?.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head == MAGIC)
}

/// What came of it.
#[derive(Debug, Default)]
struct Told {
    new: BTreeMap<&'static str, u64>,
    known: BTreeMap<&'static str, u64>,
    /// What could not be stored, and why; the first ones.
    refused: Vec<String>,
}

impl Told {
    fn print(&self) {
        let (new, known): (u64, u64) = (self.new.values().sum(), self.known.values().sum());
        let rows = if new == 1 { "row is" } else { "rows are" };
        say!("{new} {rows} new, {known} were there already.");
        for (table, count) in &self.new {
            say!("  {count:>7} {table}");
        }
        for refused in self.refused.iter().take(10) {
            eprintln!("claude-mem: not taken: {refused}");
        }
        if self.refused.len() > 10 {
            eprintln!("claude-mem: and {} more", self.refused.len() - 10);
        }
    }
}

/// Stores rows, some in each transaction.
struct Intake {
    database: Connection,
    importer: Importer,
    told: Told,
    waiting: Vec<(&'static Table, Row)>,
    count: u64,
    total: u64,
    progress: Progress,
}

impl Intake {
    fn new(home: &Home) -> anyhow::Result<Self> {
        Ok(Self {
            database: store::open_to_change(home, PATIENCE_MS)?,
            importer: Importer::default(),
            told: Told::default(),
            waiting: Vec::new(),
            count: 0,
            total: 0,
            progress: Progress::new("importing"),
        })
    }

    fn take(&mut self, table: &'static Table, row: Row) -> Result<(), store::StoreError> {
        self.waiting.push((table, row));
        if self.waiting.len() as u64 >= AT_ONCE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), store::StoreError> {
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (table, row) in self.waiting.drain(..) {
            self.count += 1;
            match self.importer.take(&transaction, table, row)? {
                Taken::New => *self.told.new.entry(table.name).or_default() += 1,
                Taken::Known => *self.told.known.entry(table.name).or_default() += 1,
                Taken::Refused(why) => self.told.refused.push(format!("{}: {why}", table.name)),
            }
        }
        transaction.commit()?;
        self.progress.tell(self.count, self.total);
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<Told> {
        self.flush()?;
        let transaction = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.importer.finish(&transaction)?;
        upkeep::adopt_imported(&transaction)?;
        transaction.commit()?;
        Ok(self.told)
    }

    /// Lines of an export. A line that makes no sense is told, and stops nothing.
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
            match serde_json::from_str::<Line>(&line).map(|line| (by_name(&line.table), line)) {
                Ok((Some(table), line)) => self.take(table, from_json(line.row))?,
                Ok((None, line)) => {
                    self.told.refused.push(format!("line {}: there is no table {}", number + 2, line.table));
                }
                Err(error) => self.told.refused.push(format!("line {}: {error}", number + 2)),
            }
            read += 1;
        }
        if read < self.total {
            self.told.refused.push(format!("the file ends early: it has {read} of {} rows", self.total));
        }
        Ok(())
    }

    /// A database: ours, or the other program's. Read from a copy, because opening one can change it.
    fn database(&mut self, home: &Home, file: &Path) -> anyhow::Result<()> {
        let scratch = home.dir().join("import.tmp");
        create_private_dir(&scratch)?;
        let outcome = predecessor::open_copy(file, &scratch).map_err(Into::into).and_then(|copy| {
            if predecessor::is_predecessor(&copy) { self.predecessor(copy) } else { self.own(&copy) }
        });
        let _ = std::fs::remove_dir_all(&scratch);
        outcome
    }

    fn predecessor(&mut self, copy: Connection) -> anyhow::Result<()> {
        let theirs = Predecessor::new(copy)?;
        self.total = u64::try_from(theirs.count()?).unwrap_or_default();
        theirs.each(|(table, row)| match by_name(table) {
            Some(table) => self.take(table, row),
            None => Ok(()),
        })?;
        Ok(())
    }

    fn own(&mut self, copy: &Connection) -> anyhow::Result<()> {
        let counts = rows::counts(copy)?;
        if !counts.contains_key("pending_queue") {
            bail!("this is the database of another program");
        }
        self.total = u64::try_from(counts.values().sum::<i64>()).unwrap_or_default();
        for table in TABLES.iter().filter(|table| counts.contains_key(table.name)) {
            rows::read(copy, table, |row| self.take(table, row))?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Line {
    table: String,
    row: Map<String, Value>,
}

/// Checks the first line; returns how many rows follow.
fn head(line: &str) -> anyhow::Result<u64> {
    let head: Value = serde_json::from_str(line).unwrap_or_default();
    if head["format"] != FORMAT {
        bail!("this is no export of claude-mem: its first line does not say so");
    }
    let schema = head["schema"].as_i64().unwrap_or_default();
    if schema > SCHEMA_VERSION {
        bail!(
            "a newer claude-mem wrote this (schema {schema}, this one knows {SCHEMA_VERSION}): upgrade claude-mem"
        );
    }
    Ok(head["rows"].as_u64().unwrap_or_default())
}
