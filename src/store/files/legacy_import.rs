//! Reads the database of the TypeScript program of the same name: recognises it by its tables,
//! never changes it, and converts its rows to ours.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::backup;
use super::row_copy::{self, Row};
use crate::model::Millis;
use crate::paths::{Home, with_suffix};
use crate::privacy::redact::Redactor;
use crate::store::{StoreError, schema};

/// The tables that identify such a database.
const TABLES: [&str; 4] = ["sdk_sessions", "observations", "session_summaries", "user_prompts"];

/// Number of attempts to copy a database that is being written to.
const TRIES: usize = 5;

/// True if it is a database of that program.
pub fn is_legacy(database: &Connection) -> bool {
    TABLES.iter().all(|table| database.table_exists(None, *table).unwrap_or(false))
}

/// True if another program's database is at the usual path of ours.
pub fn occupies_our_path(home: &Home) -> bool {
    let path = home.usual_database();
    path.exists()
        && open_untouched(&path)
            .is_ok_and(|database| matches!(schema::version(&database), Err(StoreError::Foreign)))
}

/// Creates our database next to another program's, if that one is at our path. True if ours is next
/// to it.
pub fn use_alternate_path(home: &Home) -> Result<bool, StoreError> {
    if home.database_beside().exists() {
        return Ok(true);
    }
    if !occupies_our_path(home) {
        return Ok(false);
    }
    create_alternate(home)?;
    Ok(true)
}

/// Creates our database next to the file at its usual path, whatever that file is.
pub fn create_alternate(home: &Home) -> Result<(), StoreError> {
    let unfinished = with_suffix(&home.database_beside(), ".tmp");
    let _ = fs::remove_file(&unfinished);
    let mut database = Connection::open(&unfinished)?;
    fs::set_permissions(&unfinished, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    schema::create(&mut database, std::time::Duration::from_secs(5))?;
    drop(database);
    // From here on hooks find it.
    Ok(fs::rename(&unfinished, home.database_beside())?)
}

/// Opens a file without creating others next to it; the content of its WAL is not visible.
fn open_untouched(path: &Path) -> Result<Connection, StoreError> {
    backup::open(path)
}

/// Copies a database and its WAL into `scratch`, and opens the copy. Its program may be writing, so
/// the copy is repeated until neither file changed during it.
pub fn open_copy(path: &Path, scratch: &Path) -> Result<Connection, StoreError> {
    let copy = scratch.join("import.db");
    let state = || {
        ["", "-wal"].map(|suffix| {
            fs::metadata(with_suffix(path, suffix)).ok().map(|meta| (meta.len(), meta.modified().ok()))
        })
    };
    for _ in 0..TRIES {
        let before = state();
        for suffix in ["", "-wal"] {
            let from = with_suffix(path, suffix);
            let _ = fs::remove_file(with_suffix(&copy, suffix));
            if from.exists() {
                fs::copy(from, with_suffix(&copy, suffix))?;
            }
        }
        if before == state() {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            return Ok(Connection::open_with_flags(&copy, flags)?);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Err(StoreError::Busy)
}

/// A converted row: our table, and the row.
pub type Translated = (&'static str, Row);

/// All rows of such a database, converted to ours, in an order in which they can be stored.
#[derive(Debug)]
pub struct LegacyDatabase {
    database: Connection,
    /// Maps that program's session ids to the client's own.
    sessions: HashMap<String, String>,
}

impl LegacyDatabase {
    /// Reads from an open copy.
    pub fn new(database: Connection) -> Result<Self, StoreError> {
        let mut sessions = HashMap::new();
        their_rows(&database, "sdk_sessions", |row| {
            let client = row.text(&["content_session_id", "claude_session_id"]);
            let memory = row.text(&["memory_session_id", "sdk_session_id"]);
            if let (Some(client), Some(memory)) = (client, memory) {
                sessions.insert(memory, client);
            }
            Ok(())
        })?;
        Ok(Self { database, sessions })
    }

    /// Counts the rows.
    pub fn count(&self) -> Result<i64, StoreError> {
        let count = |table: &&str| {
            let sql = format!("SELECT count(*) FROM {table}");
            Ok(self.database.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
        };
        TABLES.iter().map(count).sum()
    }

    /// Passes each converted row to `each`.
    pub fn each(&self, mut each: impl FnMut(Translated) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let translate: [fn(&Self, &Theirs) -> Option<Translated>; 4] =
            [Self::session, Self::observation, Self::summary, Self::prompt];
        for (table, translate) in TABLES.iter().zip(translate) {
            their_rows(&self.database, table, |row| match translate(self, &row) {
                Some(translated) => each(translated),
                None => Ok(()),
            })?;
        }
        Ok(())
    }

    fn session_of(&self, row: &Theirs) -> Option<String> {
        if let Some(client) = row.text(&["content_session_id", "claude_session_id"]) {
            return Some(client);
        }
        let memory = row.text(&["memory_session_id", "sdk_session_id"])?;
        Some(self.sessions.get(&memory).cloned().unwrap_or(memory))
    }

    fn session(&self, row: &Theirs) -> Option<Translated> {
        let started = row.time("started_at")?;
        let ended = row.time("completed_at");
        let status = match row.text(&["status"]).as_deref() {
            Some("failed") => "failed",
            Some("completed") => "completed",
            // No longer in progress.
            _ => "interrupted",
        };
        Some((
            "sessions",
            vec![
                ("id".into(), Value::Text(self.session_of(row)?)),
                ("project".into(), row.text(&["project"]).unwrap_or_default().into()),
                ("status".into(), Value::Text(status.into())),
                ("started_at".into(), started.into()),
                ("last_activity_at".into(), ended.unwrap_or(started).into()),
                ("ended_at".into(), ended.unwrap_or(started).into()),
                ("prompt_count".into(), row.number("prompt_counter").unwrap_or_default().max(0).into()),
            ],
        ))
    }

    fn observation(&self, row: &Theirs) -> Option<Translated> {
        const TYPES: [&str; 6] = ["bugfix", "feature", "refactor", "change", "discovery", "decision"];
        let kind = row.text(&["type"]).filter(|kind| TYPES.contains(&kind.as_str()));
        let concepts = row.list("concepts").map(|mut concepts| {
            concepts.retain(|concept| !TYPES.contains(&concept.as_str()));
            concepts
        });
        let mut ours = self.common(row, "observation")?;
        ours.extend([
            ("type".into(), Value::Text(kind.unwrap_or_else(|| "change".into()))),
            ("title".into(), row.redacted_text(&["title"]).into()),
            ("summary".into(), row.redacted_text(&["subtitle"]).into()),
            ("detail".into(), row.redacted_text(&["narrative", "text"]).into()),
            ("facts".into(), as_json(row.list("facts"))),
            ("concepts".into(), as_json(concepts)),
            ("files_modified".into(), as_json(row.list("files_modified"))),
        ]);
        Some(("observations", ours))
    }

    fn summary(&self, row: &Theirs) -> Option<Translated> {
        let mut ours = self.common(row, "summary")?;
        for column in ["request", "investigated", "learned", "completed", "next_steps", "notes"] {
            ours.push((column.into(), row.redacted_text(&[column]).into()));
        }
        ours.push(("summary".into(), row.redacted_text(&["completed", "learned", "request"]).into()));
        ours.push(("files_edited".into(), as_json(row.list("files_edited"))));
        Some(("session_summaries", ours))
    }

    /// Converts the columns that observations and summaries share.
    fn common(&self, row: &Theirs, what: &str) -> Option<Row> {
        let at = row.time("created_at")?;
        Some(vec![
            ("uid".into(), Value::Text(row.uid(what, at))),
            ("session_id".into(), Value::Text(self.session_of(row)?)),
            ("project".into(), row.text(&["project"]).unwrap_or_default().into()),
            ("prompt_number".into(), row.number("prompt_number").into()),
            ("files_read".into(), as_json(row.list("files_read"))),
            ("provider".into(), Value::Text("import".into())),
            ("prompt_version".into(), Value::Text("claude-mem-typescript".into())),
            ("created_at".into(), at.into()),
        ])
    }

    fn prompt(&self, row: &Theirs) -> Option<Translated> {
        let number = row.number("prompt_number").filter(|number| *number > 0)?;
        Some((
            "user_prompts",
            vec![
                ("session_id".into(), Value::Text(self.session_of(row)?)),
                ("prompt_number".into(), number.into()),
                ("prompt".into(), Value::Text(row.redacted_text(&["prompt_text"])?)),
                ("created_at".into(), row.time("created_at")?.into()),
            ],
        ))
    }
}

fn as_json(list: Option<Vec<String>>) -> Value {
    list.filter(|list| !list.is_empty()).map(|list| json!(list).to_string()).into()
}

/// Reads all rows of a table, whose columns differ between versions of that program.
fn their_rows(
    database: &Connection,
    table: &str,
    mut each: impl FnMut(Theirs) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = database.prepare(&format!("SELECT * FROM {table} ORDER BY id"))?;
    let names = row_copy::column_names(database, &statement)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = names.iter().enumerate().map(|(at, name)| Ok((name.clone(), row.get(at)?)));
        each(Theirs(values.collect::<Result<_, rusqlite::Error>>()?))?;
    }
    Ok(())
}

/// A row of that program's database.
struct Theirs(HashMap<String, Value>);

impl Theirs {
    /// Returns the first of these columns that exists and is not empty.
    fn text(&self, columns: &[&str]) -> Option<String> {
        columns.iter().find_map(|column| match self.0.get(*column) {
            Some(Value::Text(text)) if !text.trim().is_empty() => Some(text.clone()),
            _ => None,
        })
    }

    /// Like [`Self::text`], with secrets redacted: that program may have stored some.
    fn redacted_text(&self, columns: &[&str]) -> Option<String> {
        self.text(columns).map(|text| Redactor::new().redact(&text).into_string())
    }

    fn number(&self, column: &str) -> Option<i64> {
        match self.0.get(column) {
            Some(Value::Integer(number)) => Some(*number),
            Some(Value::Real(number)) => Some(*number as i64),
            _ => None,
        }
    }

    /// Returns a time from the epoch column in milliseconds, or from the text column next to it.
    fn time(&self, column: &str) -> Option<Millis> {
        self.number(&format!("{column}_epoch")).or_else(|| {
            let text = self.text(&[column])?;
            text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
        })
    }

    /// Parses a JSON array of strings; other text becomes a list of one.
    fn list(&self, column: &str) -> Option<Vec<String>> {
        let text = self.text(&[column])?;
        let list: Vec<String> = serde_json::from_str(&text).unwrap_or_else(|_| vec![text]);
        Some(list.iter().map(|item| Redactor::new().redact(item).into_string()).collect())
    }

    /// Returns a stable id made from the row's time and content, so that repeated imports give the
    /// same id.
    fn uid(&self, what: &str, at: Millis) -> String {
        let identity = format!(
            "{what}\0{}\0{}\0{}\0{}",
            self.number("id").unwrap_or_default(),
            self.text(&["memory_session_id", "sdk_session_id"]).unwrap_or_default(),
            self.text(&["title", "request", "text"]).unwrap_or_default(),
            self.text(&["narrative", "completed"]).unwrap_or_default(),
        );
        let hash = xxhash_rust::xxh3::xxh3_128(identity.as_bytes()).to_be_bytes();
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        let millis = u64::try_from(at).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
    }
}
