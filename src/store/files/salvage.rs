//! Reads the intact rows of a damaged database. Works on a copy of the file, which it may patch to
//! make it readable.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::row_copy::{self, Row};
use super::wal_check::{self, Wal};
use crate::paths::with_suffix;
use crate::store::tables::{PrimaryTable, TABLES};
use crate::store::{StoreError, schema};

/// Page size of all our databases: SQLite's default.
const PAGE: usize = 4096;

/// Size of the SQLite file header, in front of the first page's tree.
const HEADER: usize = 100;

/// Maximum probes into the gaps of one table, which bounds the time spent on a large hole.
const MOST_PROBES: usize = 20_000;

/// Row ids up to this far beyond the last readable one are probed.
const BEYOND: i64 = 1 << 20;

/// A step that may make a file readable; the second path is a scratch file.
type Preparation = fn(&Path, &Path) -> Result<(), StoreError>;

/// A damaged database, opened as far as possible.
pub struct Damaged {
    database: Connection,
    copy: PathBuf,
}

impl Damaged {
    /// Returns every readable view of the file, best first: with the commits behind a break in its
    /// WAL, and as SQLite reads it. Neither contains all rows of the other.
    pub fn views(file: &Path, scratch: &Path) -> Result<Vec<Self>, StoreError> {
        let length = |suffix| fs::metadata(with_suffix(file, suffix)).map_or(0, |meta| meta.len());
        if length("") + length("-wal") < PAGE as u64 {
            return Err(StoreError::Damaged("it is empty".into()));
        }
        let mut views = Vec::new();
        if Wal::read(&with_suffix(file, "-wal")).is_some_and(|log| log.commits_behind_the_break() > 0) {
            let with_log: Preparation = |file, _| wal_check::write_back(file);
            let attempts = [with_log, repair_header, GRAFTS[0], GRAFTS[1]];
            views.extend(Self::open(file, scratch.join("salvage-log.db"), &attempts).ok());
        }
        let as_it_is: Preparation = |_, _| Ok(());
        let attempts = [as_it_is, repair_header, GRAFTS[0], GRAFTS[1]];
        match Self::open(file, scratch.join("salvage.db"), &attempts) {
            Ok(view) => views.push(view),
            Err(error) if views.is_empty() => return Err(error),
            Err(_) => {}
        }
        // Every version had all of these tables: if one is missing, the schema table is damaged.
        if !views.iter().any(|view| TABLES.iter().all(|table| view.has(table))) {
            views.extend(Self::open(file, scratch.join("salvage-tables.db"), &GRAFTS).ok());
        }
        Ok(views)
    }

    /// Copies the file and its WAL, and opens the copy after the first preparation that makes it
    /// readable.
    fn open(file: &Path, copy: PathBuf, attempts: &[Preparation]) -> Result<Self, StoreError> {
        let scratch = copy.parent().unwrap_or(Path::new("."));
        let original = |suffix| with_suffix(file, suffix);
        for suffix in ["", "-wal"] {
            let _ = fs::remove_file(with_suffix(&copy, suffix));
            if original(suffix).exists() {
                fs::copy(original(suffix), with_suffix(&copy, suffix))?;
            }
        }
        let _ = fs::remove_file(with_suffix(&copy, "-shm"));
        let mut last = StoreError::Missing;
        for prepare in attempts {
            match prepare(&copy, scratch).and_then(|()| open_leniently(&copy)) {
                Ok(database) => return Ok(Self { database, copy: copy.clone() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// True if the schema lists this table.
    pub fn has(&self, table: &PrimaryTable) -> bool {
        self.database.table_exists(None, table.name).unwrap_or(false)
    }

    /// Passes all readable rows of a table to `each`. True if the table is complete.
    pub fn rows(
        &self,
        table: &PrimaryTable,
        mut each: impl FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        if !self.has(table) {
            return Ok(false);
        }
        if !table.is_numbered {
            return self.keyed_rows(table, &mut each);
        }
        let mut walk = TableWalk { database: &self.database, table: table.name, each: &mut each, probes: 0 };
        let (first, is_whole) = walk.read(i64::MIN, i64::MAX, true)?;
        if is_whole {
            return Ok(true);
        }
        let low = first.unwrap_or(0);
        let (last, _) = walk.read(low, i64::MAX, false)?;
        walk.search_gap(low, last.unwrap_or(low.saturating_add(BEYOND)))?;
        Ok(false)
    }

    /// Rows without ids can only be read from both ends.
    fn keyed_rows(
        &self,
        table: &PrimaryTable,
        each: &mut impl FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let keys = |order: &str| {
            table.identity.iter().map(|key| format!("{key} {order}")).collect::<Vec<_>>().join(", ")
        };
        let forwards = format!("SELECT * FROM {} ORDER BY {}", table.name, keys("ASC"));
        if rows_of(&self.database, &forwards, [], |row| each(row).map(|()| ControlFlow::Continue(())))? {
            return Ok(true);
        }
        // Rows read twice are stored once.
        let backwards = format!("SELECT * FROM {} ORDER BY {}", table.name, keys("DESC"));
        rows_of(&self.database, &backwards, [], |row| each(row).map(|()| ControlFlow::Continue(())))?;
        Ok(false)
    }

    /// Returns one session, if it is readable.
    pub fn session(&self, id: &str) -> Option<Row> {
        let mut found = None;
        let sql = "SELECT * FROM sessions WHERE id = ?1";
        let _ = rows_of(&self.database, sql, [id], |row| {
            found = Some(row);
            Ok(ControlFlow::Break(()))
        });
        found
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(with_suffix(&self.copy, suffix));
        }
    }
}

fn open_leniently(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(file, flags)?;
    database.busy_timeout(Duration::from_secs(5))?;
    // Also lets SQLite read a file that is shorter than its header states.
    database.pragma_update(None, "writable_schema", true)?;
    database.pragma_update(None, "cell_size_check", true)?;
    database.pragma_update(None, "query_only", true)?;
    let is_ours: bool = database.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'pending_queue')",
        [],
        |row| row.get(0),
    )?;
    if !is_ours {
        return Err(StoreError::Damaged("cannot find its tables".into()));
    }
    match row_copy::names_are_text(&database) {
        Err(error @ StoreError::Damaged(_)) => Err(error),
        // The rest of the schema may be unreadable; each table is tried separately.
        _ => Ok(database),
    }
}

/// Runs a query and passes rows to `each` until one cannot be read; true if all could. An error
/// from `each` ends it.
fn rows_of(
    database: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    mut each: impl FnMut(Row) -> Result<ControlFlow<()>, StoreError>,
) -> Result<bool, StoreError> {
    let Ok(mut statement) = database.prepare_cached(sql) else { return Ok(false) };
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let Ok(mut rows) = statement.query(parameters) else { return Ok(false) };
    loop {
        match rows.next() {
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
            Ok(Some(row)) => {
                let values = names.iter().enumerate().map(|(at, name)| Ok((name.clone(), row.get(at)?)));
                // Invalid UTF-8 is damage as well, but only of this row.
                let Ok(values) = values.collect::<Result<Row, rusqlite::Error>>() else { continue };
                if each(values)?.is_break() {
                    return Ok(true);
                }
            }
        }
    }
}

/// A walk over a table by row id, around unreadable pages.
struct TableWalk<'a, F> {
    database: &'a Connection,
    table: &'static str,
    each: &'a mut F,
    probes: usize,
}

impl<F: FnMut(Row) -> Result<(), StoreError>> TableWalk<'_, F> {
    /// Reads the rows between two ids, from one end, until one cannot be read. Returns the last
    /// readable id, and whether all rows were readable.
    fn read(&mut self, above: i64, below: i64, upwards: bool) -> Result<(Option<i64>, bool), StoreError> {
        let order = if upwards { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT rowid AS at_number, * FROM {} NOT INDEXED WHERE rowid > ?1 AND rowid < ?2 ORDER BY rowid {order}",
            self.table
        );
        let mut last = None;
        self.probes += 1;
        let each = &mut *self.each;
        let is_whole = rows_of(self.database, &sql, [above, below], |mut row| {
            if let (_, rusqlite::types::Value::Integer(number)) = row.remove(0) {
                last = Some(number);
            }
            each(row).map(|()| ControlFlow::Continue(()))
        })?;
        Ok((last, is_whole))
    }

    /// Probes a gap in its middle, then the remaining gaps, largest first.
    fn search_gap(&mut self, low: i64, high: i64) -> Result<(), StoreError> {
        let mut gaps = VecDeque::from([(low, high)]);
        while let Some((low, high)) = gaps.pop_front() {
            if high - low < 2 || self.probes >= MOST_PROBES {
                continue;
            }
            let middle = low + (high - low) / 2;
            let (up, is_whole) = self.read(middle - 1, high, true)?;
            if !is_whole {
                gaps.push_back((up.unwrap_or(middle), high));
            }
            let (down, is_whole) = self.read(low, middle, false)?;
            if !is_whole {
                gaps.push_back((low, down.unwrap_or(middle)));
            }
        }
        Ok(())
    }
}

/// Replaces a broken file header with that of a new database of ours.
fn repair_header(file: &Path, scratch: &Path) -> Result<(), StoreError> {
    let header = header_for(file, &Model::make(scratch, Layout::AsMade)?)?;
    write_at_start(file, &header)
}

/// The two possible layouts of a lost schema table.
const GRAFTS: [Preparation; 2] = [
    |file, scratch| graft_schema(file, &Model::make(scratch, Layout::AsMade)?),
    |file, scratch| graft_schema(file, &Model::make(scratch, Layout::AsVacuumed)?),
];

/// Rewrites an unreadable schema table: SQLite keeps the root pages at the start of the file in
/// creation order, so they are where a new database has them. Only tables; reading them needs no
/// index. Returns an error if the data does not fit: then the layout is the other one.
fn graft_schema(file: &Path, model: &Model) -> Result<(), StoreError> {
    // The WAL may contain a first page that would hide the new one, and other pages that are newer
    // than those in the file.
    let _ = wal_check::write_back(file);
    let _ = fs::remove_file(with_suffix(file, "-wal"));
    let _ = fs::remove_file(with_suffix(file, "-shm"));
    let mut page = [0; PAGE];
    page[..HEADER].copy_from_slice(&header_for(file, model)?);
    // A rollback journal, and no pointer map, because that may be damaged, too.
    page[18..20].fill(1);
    page[52..56].fill(0);
    page[64..68].fill(0);
    // An empty table leaf, whose cell content starts at the end of the page.
    page[HEADER] = 0x0d;
    page[HEADER + 5..HEADER + 7].copy_from_slice(&(PAGE as u16).to_be_bytes());
    write_at_start(file, &page)?;
    let database = Connection::open(file)?;
    database.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
    database.pragma_update(None, "writable_schema", true)?;
    for (name, root, sql) in &model.tables {
        let insert = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('table', ?1, ?1, ?2, ?3)";
        database.execute(insert, rusqlite::params![name, root, sql])?;
    }
    drop(database);
    make_sense(&open_leniently(file)?)
}

/// Columns whose values identify their table.
const IDENTIFYING: [(&str, &str); 6] = [
    (
        "sessions",
        "typeof(id) = 'text' AND typeof(started_at) = 'integer' AND typeof(prompt_count) = 'integer'",
    ),
    (
        "user_prompts",
        "typeof(session_id) = 'text' AND typeof(prompt_number) = 'integer' AND typeof(prompt) = 'text'",
    ),
    ("pending_queue", "typeof(event_key) = 'text' AND kind IN ('observation', 'summarize', 'flush')"),
    ("observations", "length(uid) = 36 AND typeof(session_id) = 'text' AND typeof(created_at) = 'integer'"),
    (
        "session_summaries",
        "length(uid) = 36 AND typeof(session_id) = 'text' AND typeof(created_at) = 'integer'",
    ),
    ("event_log", "typeof(event_type) = 'text' AND typeof(created_at) = 'integer'"),
];

fn make_sense(database: &Connection) -> Result<(), StoreError> {
    for (table, is_ours) in IDENTIFYING {
        let sql = format!("SELECT coalesce((SELECT {is_ours} FROM {table} NOT INDEXED LIMIT 1), 1)");
        // An unreadable value is damage and proves nothing.
        if database
            .query_row(&sql, [], |row| row.get::<_, Option<bool>>(0))
            .is_ok_and(|is_ours| is_ours != Some(true))
        {
            return Err(StoreError::Damaged(format!("{table} is not at the expected page")));
        }
    }
    Ok(())
}

/// The order of the root pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In creation order.
    AsMade,
    /// After a VACUUM (done by forgetting): all tables in front of all indexes.
    AsVacuumed,
}

/// Builds the header of a new database for a file of this size.
fn header_for(file: &Path, model: &Model) -> Result<[u8; HEADER], StoreError> {
    let mut header = model.header;
    let target = OpenOptions::new().write(true).open(file)?;
    let pages = target.metadata()?.len().div_ceil(PAGE as u64);
    target.set_len(pages * PAGE as u64)?;
    // The page count, marked valid, and an empty free list.
    header[28..32].copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
    header.copy_within(24..28, 92);
    header[32..40].fill(0);
    Ok(header)
}

fn write_at_start(file: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut target = OpenOptions::new().write(true).open(file)?;
    target.write_all(bytes)?;
    Ok(target.sync_all()?)
}

/// A new database of ours, as a model.
struct Model {
    header: [u8; HEADER],
    /// Name, root page and columns.
    tables: Vec<(String, i64, String)>,
}

impl Model {
    fn make(scratch: &Path, layout: Layout) -> Result<Self, StoreError> {
        let path = scratch.join("model.db");
        let clean = || {
            for suffix in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(with_suffix(&path, suffix));
            }
        };
        clean();
        let model = Self::read(&path, layout);
        clean();
        model
    }

    fn read(path: &Path, layout: Layout) -> Result<Self, StoreError> {
        let mut database = Connection::open(path)?;
        schema::create(&mut database, Duration::from_secs(5))?;
        if layout == Layout::AsVacuumed {
            database.execute_batch("VACUUM")?;
        }
        let mut tables = Vec::new();
        for table in &TABLES {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
            let root = database.query_row(sql, [table.name], |row| row.get(0))?;
            tables.push((table.name.to_owned(), root, columns_of(&database, table)?));
        }
        // Closing it checkpoints its WAL.
        drop(database);
        let mut header = [0; HEADER];
        fs::File::open(path)?.read_exact(&mut header)?;
        Ok(Self { header, tables })
    }
}

/// Returns the table's definition with its columns in order, without constraints that need an
/// index.
fn columns_of(database: &Connection, table: &PrimaryTable) -> Result<String, StoreError> {
    let statement = database.prepare(&format!("SELECT * FROM {} LIMIT 0", table.name))?;
    let names = statement.column_names();
    Ok(if table.is_numbered {
        let columns =
            names.into_iter().map(|name| if name == "id" { "id INTEGER PRIMARY KEY" } else { name });
        format!("CREATE TABLE {} ({})", table.name, columns.collect::<Vec<_>>().join(", "))
    } else {
        let key = table.identity.join(", ");
        format!("CREATE TABLE {} ({}, PRIMARY KEY ({key})) WITHOUT ROWID", table.name, names.join(", "))
    })
}
