//! Figures about the notes of a drained database, by plain SQL.

use anyhow::Result;
use regex::Regex;
use rusqlite::Connection;

use crate::notes::{Note, with_bad_phrases};
use crate::project::{LEFT_OUT, Project};

/// A project's replay.
pub struct Replayed {
    pub name: String,
    /// Rows that the queue got.
    pub recorded: i64,
    pub seconds: f64,
    pub peak_mb: f64,
}

/// The value at this percentile; sorts the values.
pub fn percentile(values: &mut [usize], percent: usize) -> usize {
    values.sort_unstable();
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

const TURNS: &str = "count(DISTINCT session_id || ':' || prompt_number) FROM pending_queue
    WHERE session_id IN mine AND kind IN ('observation', 'summarize')";
const OBSERVATIONS: &str = "count(*) FROM observations WHERE session_id IN mine AND deleted_at IS NULL";
const TURNS_WITH_ONE: &str = "count(DISTINCT session_id || ':' || prompt_number) FROM observations
    WHERE session_id IN mine AND deleted_at IS NULL";
/// The worker adds markers of its own for silent sessions.
const ROWS: &str = "count(*) FROM pending_queue WHERE session_id IN mine AND event_key NOT LIKE 'silent:%'";

const COUNTS: [(&str, &str); 8] = [
    ("sessions", "count(*) FROM mine"),
    ("prompts", "count(*) FROM user_prompts WHERE session_id IN mine"),
    ("turns", TURNS),
    ("tool events", "count(*) FROM pending_queue WHERE session_id IN mine AND kind = 'observation'"),
    ("observations", OBSERVATIONS),
    ("turns with one", TURNS_WITH_ONE),
    ("summaries", "count(*) FROM session_summaries WHERE session_id IN mine"),
    ("learnings, active", "count(*) FROM learnings WHERE project = ?1 AND is_active = 1"),
];

const STATUSES: [&str; 5] = ["done", "skipped", "error", "raw", "processing"];

/// A count for each project; `mine` are the ids of its sessions.
fn each(database: &Connection, projects: &[Replayed], count: &str) -> Result<Vec<i64>> {
    let sql = format!("WITH mine AS (SELECT id FROM sessions WHERE project = ?1) SELECT {count}");
    projects.iter().map(|it| Ok(database.query_row(&sql, [&it.name], |row| row.get(0))?)).collect()
}

/// Prints the counts of each project and their sum.
pub fn counts(database: &Connection, projects: &[Project], replayed: &[Replayed]) -> Result<()> {
    row("Counts", replayed.iter().map(|it| it.name.chars().take(16).collect()), "total".into());
    for (label, count) in COUNTS {
        sum_row(label, &each(database, replayed, count)?);
    }
    for status in STATUSES {
        let count = format!("{ROWS} AND status = '{status}'");
        sum_row(&format!("queue: {status}"), &each(database, replayed, &count)?);
    }
    let kept = each(database, replayed, ROWS)?;
    let lost: Vec<i64> = replayed.iter().zip(kept).map(|(project, kept)| project.recorded - kept).collect();
    sum_row("queue: lost", &lost);
    for label in LEFT_OUT {
        let left_out = projects.iter().map(|project| project.left_out.get(label).copied().unwrap_or(0));
        sum_row(label, &left_out.collect::<Vec<i64>>());
    }
    let seconds: f64 = replayed.iter().map(|project| project.seconds).sum();
    let peak = replayed.iter().map(|project| project.peak_mb).fold(0.0, f64::max);
    row("worker: seconds", replayed.iter().map(|it| format!("{:.1}", it.seconds)), format!("{seconds:.1}"));
    row("worker: peak MB", replayed.iter().map(|it| format!("{:.0}", it.peak_mb)), format!("{peak:.0}"));
    errors(database)
}

fn sum_row(label: &str, values: &[i64]) {
    row(label, values.iter().map(ToString::to_string), values.iter().sum::<i64>().to_string());
}

fn row(label: &str, values: impl Iterator<Item = String>, total: String) {
    let cells: String = values.chain([total]).map(|value| format!("{value:>18}")).collect();
    println!("  {label:<20}{cells}");
}

fn errors(database: &Connection) -> Result<()> {
    let sql = "SELECT last_error, count(*) FROM pending_queue WHERE status = 'error' GROUP BY 1 ORDER BY 2 DESC LIMIT 5";
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let error: Option<String> = row.get(0)?;
        println!("  error: {} ({}×)", error.unwrap_or_default(), row.get::<_, i64>(1)?);
    }
    Ok(())
}

/// Prints how often each phrase that a note must not have occurs.
pub fn bad_phrases(notes: &[Note]) {
    println!("\nBad phrases in {} notes (bound: 0 each)", notes.len());
    for (label, found) in with_bad_phrases(notes) {
        let example = found.first().map(|note| note.title.chars().take(60).collect::<String>());
        println!("  {label:<44} {:>5}   {}", found.len(), example.unwrap_or_default());
    }
}

const TRIVIAL: &str = r"(?is)^\s*(?:(?:commit|push|yes|ok|continue|go ahead|do it|1|2|3|resume|thanks|great)\b.{0,40}|/\S+)\s*$";

/// Prints the share of session digests without content.
pub fn digests(database: &Connection) -> Result<()> {
    println!("\nSession digests");
    let sql =
        "SELECT id, title, coalesce(outcome, '') FROM sessions WHERE title IS NOT NULL ORDER BY started_at";
    let Ok(mut statement) = database.prepare(sql) else {
        println!("  skipped: no digests in this database");
        return Ok(());
    };
    let trivial = Regex::new(TRIVIAL)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let digests: Vec<(String, String, String)> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    let is_trivial = |(_, title, outcome): &&(String, String, String)| {
        trivial.is_match(title) || trivial.is_match(outcome)
    };
    let found: Vec<_> = digests.iter().filter(is_trivial).collect();
    println!("  {} of {} have a trivial title or outcome (bound: 0)", found.len(), digests.len());
    for (session, title, outcome) in found.into_iter().take(5) {
        println!("  {session}: {title:?} / {outcome:?}");
    }
    Ok(())
}

const REASONS: &str = r"(?i)\b(?:because|since|so that|due to|otherwise|to avoid|instead of|in order to|rather than|as a result|caused by|the cause|root cause|which (?:made|caused|broke|meant))\b";

/// Prints the number of notes per turn and their lengths.
pub fn shape(database: &Connection, notes: &[Note], replayed: &[Replayed]) -> Result<()> {
    let sum = |count| -> Result<i64> { Ok(each(database, replayed, count)?.iter().sum()) };
    let (turns, with_one) = (sum(TURNS)?.max(1) as f64, sum(TURNS_WITH_ONE)? as f64);
    println!("\nNotes");
    println!("  {:<20} {:.2}", "notes per turn", notes.len() as f64 / turns);
    println!("  {:<20} {:.0} %", "turns with a note", 100.0 * with_one / turns);
    lengths("title", notes.iter().map(|note| &note.title));
    lengths("summary", notes.iter().map(|note| &note.summary));
    lengths("detail", notes.iter().map(|note| &note.detail));
    let reason = Regex::new(REASONS)?;
    let reasons = notes.iter().filter(|note| reason.is_match(&note.summary)).count();
    let share = 100.0 * reasons as f64 / notes.len().max(1) as f64;
    println!("  {:<20} {share:.0} % of summaries (a hint, not a grade)", "with a reason word");
    Ok(())
}

fn lengths<'a>(label: &str, texts: impl Iterator<Item = &'a String>) {
    let mut lengths: Vec<usize> = texts.map(|text| text.chars().count()).collect();
    let (p50, p95) = (percentile(&mut lengths, 50), percentile(&mut lengths, 95));
    println!("  {:<20} p50 {p50:>5}   p95 {p95:>5}", format!("{label}, characters"));
}
