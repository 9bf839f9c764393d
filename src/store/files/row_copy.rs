//! Copies rows of our tables between databases: from a backup, an export or a damaged file. Each
//! row is stored once, however often it arrives and whatever its id was.

use std::collections::{BTreeMap, HashMap};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Statement, params, params_from_iter};

use crate::model::Millis;
use crate::store::StoreError;
use crate::store::corrections::vetoes;
use crate::store::projects::{self, NameClaim};
use crate::store::tables::{PrimaryTable, TABLES};

/// A row: column names and values.
pub type Row = Vec<(String, Value)>;

/// The result of importing a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is stored now.
    New,
    /// It was already there.
    Known,
    /// It violates a constraint of its table.
    Refused(String),
}

/// Reads all rows of a table.
pub fn read(
    database: &Connection,
    table: &PrimaryTable,
    mut each: impl FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = database.prepare(&format!("SELECT * FROM {}", table.name))?;
    let names = column_names(database, &statement)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = names.iter().enumerate().map(|(at, name)| Ok((name.clone(), row.get(at)?)));
        each(values.collect::<Result<Row, rusqlite::Error>>()?)?;
    }
    Ok(())
}

/// Returns the column names of a statement, in a database that may be damaged or from another
/// program.
pub fn column_names(database: &Connection, statement: &Statement<'_>) -> Result<Vec<String>, StoreError> {
    names_are_text(database)?;
    Ok(statement.column_names().into_iter().map(str::to_owned).collect())
}

/// Rejects a schema with names that are not UTF-8: SQLite accepts them, but rusqlite panics.
pub fn names_are_text(database: &Connection) -> Result<(), StoreError> {
    let mut statement = database.prepare_cached("SELECT sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let ValueRef::Text(sql) | ValueRef::Blob(sql) = row.get_ref(0)?
            && std::str::from_utf8(sql).is_err()
        {
            return Err(StoreError::Damaged("its column names are not UTF-8".into()));
        }
    }
    Ok(())
}

/// Counts the rows of each table; an older database may lack some tables.
pub fn counts(database: &Connection) -> Result<BTreeMap<&'static str, i64>, StoreError> {
    let mut counts = BTreeMap::new();
    for table in TABLES.iter().filter(|table| database.table_exists(None, table.name).unwrap_or(false)) {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        counts.insert(table.name, database.query_row(&sql, [], |row| row.get(0))?);
    }
    Ok(counts)
}

/// Returns the value of a column.
pub fn value<'a>(row: &'a Row, column: &str) -> Option<&'a Value> {
    row.iter().find(|(name, _)| name == column).map(|(_, value)| value)
}

/// Returns the text of a column.
pub fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    match value(row, column) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// True if there is a session with this id.
pub fn has_session(database: &Connection, id: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)";
    Ok(database.prepare_cached(sql)?.query_row([id], |row| row.get(0))?)
}

fn number(row: &Row, column: &str) -> Option<i64> {
    match value(row, column) {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

/// Imports rows from another database. The caller opens the transactions.
#[derive(Debug, Default)]
pub struct Importer {
    /// Maps source ids to our ids, by table.
    numbers: HashMap<&'static str, HashMap<i64, i64>>,
    columns: HashMap<&'static str, Vec<String>>,
    /// Maps source project names to ours.
    projects: HashMap<String, String>,
    /// Learnings, and the source id of the learning that supersedes them, which may come later.
    superseded: Vec<(i64, i64)>,
}

impl Importer {
    /// Stores a row, unless it is already there.
    pub fn take(
        &mut self,
        database: &Connection,
        table: &'static PrimaryTable,
        mut row: Row,
    ) -> Result<Taken, StoreError> {
        let columns = self.columns(database, table)?;
        row.retain(|(name, _)| columns.contains(name));
        if table.name == "projects" {
            return self.take_project(database, &row);
        }
        if let Some(here) = text(&row, "project").and_then(|there| self.projects.get(there)) {
            let here = Value::Text(here.clone());
            set(&mut row, "project", here);
        }
        let there = number(&row, "id").filter(|_| table.is_numbered);
        if !self.translate(database, table, &mut row)? {
            return Ok(Taken::Refused("it refers to a row that does not exist".into()));
        }
        if let Some(here) = known(database, table, &row)? {
            self.map_id(table, there, here);
            return Ok(Taken::Known);
        }
        if table.name == "pending_queue" {
            give_back(&mut row);
        }
        let later = (table.name == "learnings").then(|| take_out(&mut row, "superseded_by")).flatten();
        let made_session = ensure_session(database, table, &row)?;
        let here = if table.is_numbered { Some(free_number(database, table, there)?) } else { None };
        if let Some(here) = here {
            set(&mut row, "id", Value::Integer(here));
        }
        match insert(database, table, &row) {
            Ok(()) => {}
            Err(StoreError::Refused(error)) => {
                // Remove the session that was created only for this rejected row.
                if let Some(session) = made_session {
                    database.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([session])?;
                }
                return Ok(Taken::Refused(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        if table.name == "sessions" {
            ensure_project(database, &row)?;
        }
        if let Some(here) = here {
            self.map_id(table, there, here);
            self.superseded.extend(later.map(|there| (here, there)));
        }
        Ok(Taken::New)
    }

    /// Completes work that needs all rows.
    pub fn finish(&mut self, database: &Connection, now: Millis) -> Result<(), StoreError> {
        vetoes::enforce(database, now)?;
        for (learning, there) in self.superseded.drain(..) {
            if let Some(here) = self.numbers.get("learnings").and_then(|known| known.get(&there)) {
                let sql = "UPDATE learnings SET superseded_by = ?2 WHERE id = ?1";
                database.prepare_cached(sql)?.execute(params![learning, here])?;
            }
        }
        // Older programs did not count prompts, and sessions without prompts are not shown.
        let sql = "UPDATE sessions SET prompt_count = (SELECT max(prompt_number) FROM user_prompts WHERE session_id = sessions.id)
                   WHERE prompt_count = 0 AND EXISTS (SELECT 1 FROM user_prompts WHERE session_id = sessions.id)";
        database.execute(sql, [])?;
        // Sources outlive their events, so event ids must not be reused.
        let sql = "UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(queue_id), 0) FROM observation_sources))
                   WHERE name = 'pending_queue'";
        if database.execute(sql, [])? == 0 {
            let sql = "INSERT INTO sqlite_sequence (name, seq)
                       SELECT 'pending_queue', max(queue_id) FROM observation_sources HAVING count(*) > 0";
            database.execute(sql, [])?;
        }
        Ok(())
    }

    /// Imports a project by its key: it may have another name here, and its source name may belong
    /// to another project here.
    fn take_project(&mut self, database: &Connection, row: &Row) -> Result<Taken, StoreError> {
        let (Some(key), Some(there)) = (text(row, "key"), text(row, "name")) else {
            return Ok(Taken::Refused("a project needs a key and a name".into()));
        };
        if let Some(here) = projects::known(database, key)? {
            self.projects.insert(there.to_owned(), here);
            return Ok(Taken::Known);
        }
        // Keys that share a name in the source were joined by the user, and stay joined.
        let joined = self.projects.get(there).cloned();
        let claim = NameClaim {
            key,
            name: joined.as_deref().unwrap_or(there),
            is_alias: joined.is_some(),
            path: text(row, "path").unwrap_or_default(),
        };
        let here = projects::assign(database, &claim)?;
        self.projects.insert(there.to_owned(), here);
        Ok(Taken::New)
    }

    fn columns(
        &mut self,
        database: &Connection,
        table: &'static PrimaryTable,
    ) -> Result<Vec<String>, StoreError> {
        if let Some(columns) = self.columns.get(table.name) {
            return Ok(columns.clone());
        }
        let statement = database.prepare(&format!("SELECT * FROM {} LIMIT 0", table.name))?;
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        self.columns.insert(table.name, columns.clone());
        Ok(columns)
    }

    fn map_id(&mut self, table: &'static PrimaryTable, there: Option<i64>, here: i64) {
        if let Some(there) = there {
            self.numbers.entry(table.name).or_default().insert(there, here);
        }
    }

    /// Translates source ids in references to our ids. Returns false if one refers to nothing; then
    /// the row cannot be stored.
    fn translate(
        &self,
        database: &Connection,
        table: &PrimaryTable,
        row: &mut Row,
    ) -> Result<bool, StoreError> {
        for (column, target) in table.references {
            let Some(there) = number(row, column).filter(|_| *column != "superseded_by") else { continue };
            let here = self.numbers.get(target).and_then(|known| known.get(&there)).copied();
            match (here, *column) {
                (Some(here), _) => set(row, column, Value::Integer(here)),
                (None, "source_observation_id") => set(row, column, Value::Null),
                // The event was dropped long ago: keep its id, unless another event has it here.
                (None, "queue_id") if !exists(database, target, there)? => {}
                (None, _) => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Clears the claim: a row in progress in the source is not in progress here.
fn give_back(row: &mut Row) {
    if text(row, "status") == Some("processing") {
        set(row, "status", Value::Text("raw".into()));
        set(row, "claimed_at", Value::Null);
    }
}

fn exists(database: &Connection, table: &str, id: i64) -> Result<bool, StoreError> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE id = ?1)");
    Ok(database.prepare_cached(&sql)?.query_row([id], |row| row.get(0))?)
}

/// Returns the id of the existing row with the same identity; 0 for tables without ids.
fn known(database: &Connection, table: &PrimaryTable, row: &Row) -> Result<Option<i64>, StoreError> {
    let is_same: Vec<String> =
        table.identity.iter().enumerate().map(|(at, column)| format!("{column} IS ?{}", at + 1)).collect();
    let what = if table.is_numbered { "id" } else { "0" };
    let sql = format!("SELECT {what} FROM {} WHERE {} LIMIT 1", table.name, is_same.join(" AND "));
    let values = table.identity.iter().map(|column| value(row, column).unwrap_or(&Value::Null));
    let mut statement = database.prepare_cached(&sql)?;
    Ok(statement.query_row(params_from_iter(values), |row| row.get(0)).optional()?)
}

/// Returns the source id, or the next free one if it is taken.
fn free_number(database: &Connection, table: &PrimaryTable, wanted: Option<i64>) -> Result<i64, StoreError> {
    if let Some(wanted) = wanted.filter(|wanted| *wanted > 0)
        && !exists(database, table.name, wanted)?
    {
        return Ok(wanted);
    }
    let sql = format!(
        "SELECT max(coalesce((SELECT max(id) FROM {0}), 0),
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{0}'), 0)) + 1",
        table.name
    );
    Ok(database.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

/// Creates the session of a row whose session record is missing, from the row's own columns.
/// Returns its id if it was created.
fn ensure_session(
    database: &Connection,
    table: &PrimaryTable,
    row: &Row,
) -> Result<Option<String>, StoreError> {
    let session = text(row, "session_id").filter(|_| table.name != "event_log");
    let Some(session) = session else { return Ok(None) };
    let at = number(row, "created_at").or(number(row, "snapshot_at")).unwrap_or_default();
    let sql = "INSERT INTO sessions (id, project, status, started_at, last_activity_at, ended_at)
               SELECT ?1, ?2, 'completed', ?3, ?3, ?3 WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)";
    let project = text(row, "project").unwrap_or_default();
    let made = database.prepare_cached(sql)?.execute(params![session, project, at])? > 0;
    Ok(made.then(|| session.to_owned()))
}

/// Creates the project of a session whose project record is missing.
fn ensure_project(database: &Connection, row: &Row) -> Result<(), StoreError> {
    if let (Some(key), Some(name)) = (text(row, "project_key"), text(row, "project"))
        && !key.is_empty()
    {
        let path = text(row, "project_path").unwrap_or_default();
        projects::assign(database, &NameClaim { key, name, is_alias: true, path })?;
    }
    Ok(())
}

fn insert(database: &Connection, table: &PrimaryTable, row: &Row) -> Result<(), StoreError> {
    let names: Vec<&str> = row.iter().map(|(name, _)| name.as_str()).collect();
    let places: Vec<String> = (1..=row.len()).map(|at| format!("?{at}")).collect();
    let sql = format!("INSERT INTO {} ({}) VALUES ({})", table.name, names.join(", "), places.join(", "));
    database.prepare_cached(&sql)?.execute(params_from_iter(row.iter().map(|(_, value)| value)))?;
    Ok(())
}

fn set(row: &mut Row, column: &str, value: Value) {
    match row.iter_mut().find(|(name, _)| name == column) {
        Some((_, old)) => *old = value,
        None => row.push((column.to_owned(), value)),
    }
}

fn take_out(row: &mut Row, column: &str) -> Option<i64> {
    let old = number(row, column);
    if old.is_some() {
        set(row, column, Value::Null);
    }
    old
}
