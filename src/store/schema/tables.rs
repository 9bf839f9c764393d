//! The tables with primary data, and the identity of their rows. All other tables are derived from
//! these.

/// A table with primary data.
#[derive(Debug, PartialEq, Eq)]
pub struct PrimaryTable {
    /// Table name.
    pub name: &'static str,
    /// Columns that identify a row across databases.
    pub identity: &'static [&'static str],
    /// True if `id` is a number, which another database may assign to another row.
    pub is_numbered: bool,
    /// Columns that hold the id of a row of another table.
    pub references: &'static [(&'static str, &'static str)],
}

const fn numbered(name: &'static str, identity: &'static [&'static str]) -> PrimaryTable {
    PrimaryTable { name, identity, is_numbered: true, references: &[] }
}

/// Those that others refer to come first.
pub const TABLES: [PrimaryTable; 18] = [
    PrimaryTable { name: "projects", identity: &["key"], is_numbered: false, references: &[] },
    PrimaryTable { name: "sessions", identity: &["id"], is_numbered: false, references: &[] },
    numbered("user_prompts", &["session_id", "prompt_number"]),
    numbered("pending_queue", &["event_key"]),
    numbered("observations", &["uid"]),
    PrimaryTable {
        name: "observation_sources",
        identity: &["observation_id", "queue_id"],
        is_numbered: false,
        references: &[("observation_id", "observations"), ("queue_id", "pending_queue")],
    },
    PrimaryTable {
        references: &[("observation_id", "observations")],
        ..numbered("observation_edits", &["observation_id", "created_at"])
    },
    PrimaryTable {
        name: "anchors",
        identity: &["observation_id", "file_path", "symbol"],
        is_numbered: false,
        references: &[("observation_id", "observations")],
    },
    numbered("branches", &["project", "name"]),
    numbered("session_summaries", &["uid"]),
    PrimaryTable {
        references: &[("source_observation_id", "observations"), ("superseded_by", "learnings")],
        ..numbered("learnings", &["uid"])
    },
    numbered(
        "function_map",
        &["session_id", "file_path", "qualified_name", "line_start", "change_type", "snapshot_at"],
    ),
    PrimaryTable {
        name: "sightings",
        identity: &["project", "kind", "subject", "session_id"],
        is_numbered: false,
        references: &[],
    },
    numbered("vetoes", &["project", "key"]),
    numbered("edit_traces", &["session_id", "prompt_number", "file_path", "created_at"]),
    numbered("repairs", &["session_id", "prompt_number", "signature", "created_at"]),
    numbered("backfill_files", &["path"]),
    numbered(
        "event_log",
        &[
            "event_type",
            "created_at",
            "session_id",
            "data",
            "duration_ms",
            "tokens_in",
            "tokens_out",
            "cost_usd",
        ],
    ),
];

/// Returns the table with this name.
pub fn by_name(name: &str) -> Option<&'static PrimaryTable> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;

    #[test]
    fn every_table_is_primary_or_derived() {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_hook(&Home::at(scratch.path()), 1000).unwrap();
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                   AND name NOT LIKE 'search\\_%' ESCAPE '\\' AND name NOT IN ('backfill_records', 'stale_notes')";
        let mut statement = database.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
        let mut names: Vec<String> = names.collect();
        let mut listed: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        names.sort();
        listed.sort_unstable();
        assert_eq!(
            names, listed,
            "list a new table here, so that it is exported, recovered and forgotten, or prefix its name with search_"
        );
    }
}
