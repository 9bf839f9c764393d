//! Raw prompts and payloads, as captured by hooks: the worker redacts them before anything else
//! reads them.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::store::StoreError;

/// Prompts per transaction, so that no hook waits long.
const AT_ONCE: u32 = 50;

/// The result of redacting a batch of prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redaction {
    /// True if more prompts are left.
    pub is_unfinished: bool,
    /// True if a secret was found. The WAL still holds it.
    pub has_secrets: bool,
}

/// Redacts raw prompts in place. `secure_delete` and the next checkpoint clear the bytes of the raw ones.
pub fn redact_raw(
    database: &mut Connection,
    redact: impl Fn(&str) -> String,
) -> Result<Redaction, StoreError> {
    // Read first: a write would wait for the current writer.
    if !database
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM user_prompts WHERE is_raw = 1)")?
        .query_row([], |row| row.get(0))?
    {
        return Ok(Redaction::default());
    }
    redact_some(database, redact)
}

/// Replaces raw payloads by redacted ones. `secure_delete` and the next checkpoint clear the bytes of the raw ones.
pub fn replace_payloads(database: &mut Connection, payloads: &[(i64, String)]) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (id, payload) in payloads {
        let sql = "UPDATE pending_queue SET payload = ?2 WHERE id = ?1 AND payload IS NOT NULL";
        transaction.prepare_cached(sql)?.execute(params![id, payload])?;
    }
    Ok(transaction.commit()?)
}

fn redact_some(database: &mut Connection, redact: impl Fn(&str) -> String) -> Result<Redaction, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let prompts = {
        let sql = "SELECT id, prompt FROM user_prompts WHERE is_raw = 1 ORDER BY id LIMIT ?1";
        let mut statement = transaction.prepare_cached(sql)?;
        let rows = statement.query_map([AT_ONCE], |row| {
            // One prompt with invalid UTF-8 must not stop the ones behind it.
            let prompt = String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned();
            Ok((row.get::<_, i64>(0)?, prompt))
        })?;
        rows.collect::<Result<Vec<_>, _>>()?
    };
    let mut has_secrets = false;
    for (id, prompt) in &prompts {
        let sql = "UPDATE user_prompts SET prompt = ?2, is_raw = 0 WHERE id = ?1";
        let redacted = redact(prompt);
        has_secrets |= redacted != *prompt;
        transaction.prepare_cached(sql)?.execute(params![id, redacted])?;
    }
    transaction.commit()?;
    Ok(Redaction { is_unfinished: prompts.len() == AT_ONCE as usize, has_secrets })
}
