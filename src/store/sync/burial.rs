//! Deletes the rows that tombstones of other devices cover, and those that come back.

use rusqlite::{Connection, OptionalExtension, params};

use super::super::StoreError;
use super::super::maintenance::forget::{self, Selection};
use super::super::projects;
use super::apply::Incoming;
use super::collect::Collector;
use super::content::{self, RecordContent, RecordKind, UNTITLED, uid_of};
use super::forgotten::{self, Tombstone, is_of_team, items_of, queue_purges};
use super::hlc::Hlc;
use crate::model::Millis;

/// The reach of a tombstone.
#[derive(Debug, Clone, Copy)]
struct Tomb {
    until: Millis,
    hlc: Hlc,
    /// True if another member made it: it covers only what the team has.
    is_foreign: bool,
}

/// Applies the tombstones of another device.
pub(super) fn apply(
    transaction: &Connection,
    tombstones: &[Tombstone],
    record: &Incoming,
    collector: Collector<'_>,
) -> Result<(), StoreError> {
    let (hlc, is_foreign) = (Hlc(record.hlc), record.is_foreign);
    forgotten::keep(transaction, tombstones, hlc, (record.is_shared, is_foreign))?;
    let (mut items, mut sessions, mut selection) = (Vec::new(), Vec::new(), Selection::default());
    for (key, until) in tombstones {
        let tomb = Tomb { until: *until, hlc, is_foreign };
        match key.split_once(':') {
            Some(("uid", uid)) => items.extend(["o", "s", "l"].map(|letter| format!("{letter}:{uid}"))),
            Some(("veto", uid)) => {
                let sql = "SELECT 1 FROM sync_vetoes WHERE uid = ?1 AND created_at <= ?2";
                if transaction.prepare_cached(sql)?.exists(params![uid, until])? {
                    items.push(format!("v:{uid}"));
                }
            }
            Some(("session", session)) => {
                let condition = format!("session_id = ?1 AND created_at <= {until}");
                items.extend(items_of(transaction, &condition, session)?);
                select_session(transaction, session, tomb, &mut selection)?;
                sessions.push(session.to_owned());
            }
            Some(("project", project)) => {
                for name in names_of(transaction, project)? {
                    sessions.extend(sessions_of(transaction, &name)?);
                    forget_project(transaction, &name, tomb, &mut items, &mut selection)?;
                }
            }
            _ => {}
        }
    }
    if is_foreign {
        let mut teams = Vec::new();
        for item in items {
            if is_of_team(transaction, &item)? {
                teams.push(item);
            }
        }
        items = teams;
    }
    queue_purges(transaction, &items)?;
    for item in &items {
        select_item(transaction, item, &mut selection)?;
    }
    forget::erase(transaction, &selection, collector.digest, collector.now)?;
    if is_foreign { erase_empty(transaction, &sessions, collector) } else { Ok(()) }
}

/// Deletes the sessions of other devices that have nothing left.
fn erase_empty(
    transaction: &Connection,
    sessions: &[String],
    collector: Collector<'_>,
) -> Result<(), StoreError> {
    let mut selection = Selection::default();
    for session in sessions {
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND origin = 'sync' AND title IS NULL
                   AND NOT EXISTS (SELECT 1 FROM observations WHERE session_id = ?1)
                   AND NOT EXISTS (SELECT 1 FROM session_summaries WHERE session_id = ?1)";
        if transaction.prepare_cached(sql)?.exists([session])? {
            selection.sessions.push(session.clone());
        }
    }
    forget::erase(transaction, &selection, collector.digest, collector.now)
}

/// Deletes the row of a forgotten memory that came back. `is_foreign`: only other members forgot it.
pub(super) fn erase_again(
    transaction: &Connection,
    part: &RecordContent,
    is_foreign: bool,
    collector: Collector<'_>,
) -> Result<(), StoreError> {
    let mut selection = Selection::default();
    if part.kind == RecordKind::Session {
        let keys = [format!("session:{}", uid_of(&part.item)), format!("project:{}", part.project)];
        let sql =
            "SELECT max(until), max(hlc) FROM sync_forgotten WHERE key IN (?1, ?2) AND is_foreign <= ?3";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Hlc(row.get(1)?)));
        let [session, project] = &keys;
        let (until, hlc) =
            transaction.prepare_cached(sql)?.query_row(params![session, project, is_foreign], read)?;
        let tomb = Tomb { until, hlc, is_foreign };
        select_session(transaction, uid_of(&part.item), tomb, &mut selection)?;
    } else {
        select_item(transaction, &part.item, &mut selection)?;
    }
    forget::erase(transaction, &selection, collector.digest, collector.now)
}

fn select_item(database: &Connection, item: &str, selection: &mut Selection) -> Result<(), StoreError> {
    let shape = content::shape_of(item).filter(|shape| shape.kind != RecordKind::Session);
    let Some(shape) = shape else { return Ok(()) };
    let sql = format!("SELECT id FROM {} WHERE uid = ?1", shape.table);
    let id: Option<i64> =
        database.prepare_cached(&sql)?.query_row([uid_of(item)], |row| row.get(0)).optional()?;
    let ids = match shape.kind {
        RecordKind::Observation => &mut selection.observations,
        RecordKind::Summary => &mut selection.summaries,
        RecordKind::Veto => &mut selection.vetoes,
        _ => &mut selection.learnings,
    };
    ids.extend(id);
    Ok(())
}

/// Selects the prompts of a forgotten session up to that time, and the session itself if nothing
/// happened in it since; otherwise only its digest is removed. Another member's tombstone removes no
/// more than a digest that the team has.
fn select_session(
    database: &Connection,
    session: &str,
    Tomb { until, hlc, is_foreign }: Tomb,
    selection: &mut Selection,
) -> Result<(), StoreError> {
    if is_foreign && !is_of_team(database, &format!("d:{session}"))? {
        return Ok(());
    }
    let sql = "UPDATE sessions SET title = NULL, outcome = NULL, open_items = NULL WHERE id = ?1
               AND NOT EXISTS (SELECT 1 FROM sync_items WHERE item = 'd:' || ?1 AND hlc > ?2)";
    if database.prepare_cached(sql)?.execute(params![session, hlc.0])? > 0 {
        // A later digest of this device comes after the tombstone.
        let sql = "INSERT OR REPLACE INTO sync_items (item, hlc, device, hash, shared)
                   SELECT 'd:' || ?1, ?2, '', ?3, coalesce((SELECT shared FROM sync_items WHERE item = 'd:' || ?1), 0)";
        database.prepare_cached(sql)?.execute(params![session, hlc.0, UNTITLED])?;
    }
    if is_foreign {
        return Ok(());
    }
    let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND last_activity_at <= ?2
               AND NOT EXISTS (SELECT 1 FROM observations WHERE session_id = ?1 AND created_at > ?2)
               AND NOT EXISTS (SELECT 1 FROM session_summaries WHERE session_id = ?1 AND created_at > ?2)
               AND NOT EXISTS (SELECT 1 FROM sync_items WHERE item = 'd:' || ?1 AND hlc > ?3)";
    if database.prepare_cached(sql)?.exists(params![session, until, hlc.0])? {
        selection.sessions.push(session.to_owned());
    }
    let sql = "SELECT id FROM user_prompts WHERE session_id = ?1 AND created_at <= ?2";
    let mut statement = database.prepare_cached(sql)?;
    for id in statement.query_map(params![session, until], |row| row.get(0))? {
        selection.prompts.push(id?);
    }
    Ok(())
}

fn forget_project(
    transaction: &Connection,
    name: &str,
    tomb: Tomb,
    items: &mut Vec<String>,
    selection: &mut Selection,
) -> Result<(), StoreError> {
    for session in sessions_of(transaction, name)? {
        select_session(transaction, &session, tomb, selection)?;
    }
    for item in items_of(transaction, "project = ?1", name)? {
        if tomb.is_foreign && !is_of_team(transaction, &item)? {
            continue;
        }
        let parts = content::read(transaction, &item)?;
        // The clock decides about a digest, as in `is_forgotten`.
        let sql = "SELECT 1 FROM sync_items WHERE item = ?1 AND hlc > ?2";
        let is_later_digest = transaction.prepare_cached(sql)?.exists(params![item, tomb.hlc.0])?;
        let is_dead = |part: &RecordContent| match part.kind {
            RecordKind::Session => !is_later_digest,
            _ => part.at <= tomb.until,
        };
        if parts.first().is_some_and(is_dead) {
            items.push(item);
        } else {
            // The project's bodies are purged and their key is destroyed: what was sent from here
            // about a later memory needs new records.
            for part in &parts {
                let sql = "UPDATE sync_items SET hash = 0 WHERE item = ?1 AND device = (SELECT device FROM sync_state)";
                if transaction.prepare_cached(sql)?.execute([&part.item])? > 0 {
                    let sql = "INSERT OR IGNORE INTO sync_dirty VALUES (?1)";
                    transaction.prepare_cached(sql)?.execute([&item])?;
                }
            }
        }
    }
    Ok(())
}

fn sessions_of(database: &Connection, project: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = database.prepare_cached("SELECT id FROM sessions WHERE project = ?1")?;
    let rows = statement.query_map([project], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn names_of(database: &Connection, key: &str) -> Result<Vec<String>, StoreError> {
    match key.strip_prefix("name:") {
        Some(name) => Ok(vec![name.to_owned()]),
        None => Ok(projects::known(database, key)?.into_iter().collect()),
    }
}
