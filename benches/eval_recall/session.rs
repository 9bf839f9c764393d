//! Replays a project's events, and queries the memory at each recall moment, like the routes do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use claude_mem::anchors::{self as compare, FileState};
use claude_mem::config::Config;
use claude_mem::context::in_session::{self, RecallQuery, RecallText, Trigger};
use claude_mem::context::{self, CodeCheck, Explained, Hint, RelevanceQuery, relevance};
use claude_mem::model::{Event, EventBody, SessionId, SessionStamp, Standing};
use claude_mem::nudge;
use claude_mem::store;
use claude_mem::store::context::{self as table, ContextMemory, Shown};
use claude_mem::store::log::{LogEntry, log};
use claude_mem::store::memory::anchors;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::history::within;
use crate::project::Project;
use crate::replay::{Scratch, Worker};
use crate::repo::Repo;
use crate::tree::{Fate, Tree};

/// The kind of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Start,
    Prompt,
    Edit,
    Failure,
}

/// A moment, and the answer.
pub struct Case {
    pub kind: Kind,
    pub project: String,
    pub session: String,
    /// The number of the moment in its session.
    pub number: usize,
    pub at: i64,
    /// The newest note and the learnings that the memory had at a start.
    pub newest: i64,
    pub learned: Vec<String>,
    /// The prompt, the edit or the error; for a start its source.
    pub asked: String,
    pub text: String,
    pub tokens: usize,
    pub ms: f64,
    /// The lines, those of a start with their layers.
    pub lines: Vec<(&'static str, String)>,
    /// The memories that were shown, with the fate of their code.
    pub shown: Vec<ShownMemory>,
    /// The best memories for a prompt, whatever the floor: fit, text and changed files.
    pub candidates: Vec<(f64, String)>,
}

/// A memory that a moment showed: an observation, or a session.
pub struct ShownMemory {
    pub layer: &'static str,
    pub text: String,
    pub fate: Fate,
}

/// Learnings that are noted at a start.
const LEARNED: u32 = 12;

/// Replays a project. Returns its moments, and the notes that it has in the end.
pub fn replay(scratch: &Scratch, project: &Project) -> Result<(Vec<Case>, Vec<ContextMemory>)> {
    let worker = scratch.start_worker(&[])?;
    // The worker creates the database.
    while scratch.database().is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let database = store::open_for_hook(&scratch.home(), 10_000)?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().try_into()?;
    let mut player = Player {
        scratch,
        project,
        worker,
        database,
        config: Config::default(),
        began,
        waiting: HashMap::new(),
        count: HashMap::new(),
        repo: Repo::default(),
        tree: Tree::default(),
        cases: Vec::new(),
    };
    for event in &project.events {
        player.play(event)?;
    }
    let Player { worker, cases, database, .. } = player;
    worker.stop()?;
    let all = table::newest_observations(&database, &project.name, u32::MAX)?;
    let memories = table::memories(&database, &project.name, &all)?;
    Ok((cases, memories))
}

struct Player<'a> {
    scratch: &'a Scratch,
    project: &'a Project,
    worker: Worker,
    database: Connection,
    config: Config,
    /// The start of the replay: rows with a later time were made by it.
    began: i64,
    /// Tool events of turns that have not ended.
    waiting: HashMap<String, Vec<Event>>,
    count: HashMap<String, usize>,
    repo: Repo,
    tree: Tree,
    cases: Vec<Case>,
}

impl Player<'_> {
    fn play(&mut self, event: &Event) -> Result<()> {
        let Some(session) = &event.session else { return Ok(()) };
        self.repo.check_out(session, &self.project.root);
        match &event.body {
            EventBody::Start { source } => {
                self.scratch.record(std::slice::from_ref(event))?;
                self.start(session, source.as_deref(), event.at)?;
            }
            EventBody::Prompt { text } => {
                self.end_turn(session, event)?;
                self.tree.prompt(session);
                self.ask(
                    session,
                    Kind::Prompt,
                    text.clone(),
                    &Trigger::Prompt { text: text.clone() },
                    event.at,
                )?;
            }
            EventBody::Tool(tool) => {
                let payload: Value = serde_json::from_str(&tool.payload.json).unwrap_or_default();
                let name = tool.tool_name.as_deref().unwrap_or_default();
                if tool.failed {
                    let error = payload["error"].as_str().unwrap_or_default().to_owned();
                    let command = payload["tool_input"]["command"].as_str().unwrap_or(name);
                    let asked = format!("{command}\n{error}");
                    self.ask(session, Kind::Failure, asked, &Trigger::Failure { error }, event.at)?;
                } else if matches!(name, "Edit" | "Write" | "MultiEdit")
                    && let Some(trigger) = edit(&payload["tool_input"], &self.project.root)
                {
                    let asked = described(&trigger);
                    self.ask(session, Kind::Edit, asked, &trigger, event.at)?;
                }
                self.repo.record(session, tool, &payload, &self.project.root);
                self.tree.record(session, tool, &self.project.root);
                self.waiting.entry(session.id.as_str().to_owned()).or_default().push(event.clone());
            }
            EventBody::Summarize(_) | EventBody::End { .. } => self.end_turn(session, event)?,
            EventBody::Rejected { .. } => {}
        }
        Ok(())
    }

    /// Records the rest of a turn and lets the worker write its note. The worker's clock is today's: new rows get the original
    /// time afterwards.
    fn end_turn(&mut self, session: &SessionStamp, event: &Event) -> Result<()> {
        let mut events = self.waiting.remove(session.id.as_str()).unwrap_or_default();
        events.push(event.clone());
        self.scratch.record(&events)?;
        let _ = nudge::send(&self.scratch.home());
        self.scratch.drain(&mut self.worker)?;
        for (table, column) in [
            ("observations", "created_at"),
            ("session_summaries", "created_at"),
            ("edit_traces", "created_at"),
            ("repairs", "created_at"),
            ("function_map", "snapshot_at"),
            ("learnings", "updated_at"),
        ] {
            let sql = format!("UPDATE {table} SET {column} = ?1 WHERE {column} >= ?2");
            self.database.prepare_cached(&sql)?.execute(params![event.at, self.began])?;
        }
        Ok(())
    }

    fn start(&mut self, session: &SessionStamp, source: Option<&str>, now: i64) -> Result<()> {
        let began = Instant::now();
        let search =
            relevance::SearchRelevance::new(&self.database, &self.config.search, &self.project.name, now);
        let recall = |question: &RelevanceQuery| search.find(question);
        let budget = usize::try_from(self.config.context.budget)?;
        let standing = |note| self.standing(note);
        let repo_state = self.repo.state(session, &self.project.root);
        let built = context::build(
            &self.database,
            &context::ContextRequest {
                project: &self.project.name,
                project_path: &self.project.root,
                root: &self.project.root,
                session_id: session.id.as_str(),
                source,
                repo_state,
                recall: Some(&recall),
                code: CodeCheck(Some(&standing)),
                hint: Hint::default(),
                now,
                budget,
                ..context::ContextRequest::default()
            },
        );
        let ms = began.elapsed().as_secs_f64() * 1000.0;
        if !built.text.is_empty() {
            self.note("context", session, built.log_data(budget, "worker", source), now)?;
        }
        let shown = self.fates(&built.lines)?;
        let case = Case {
            kind: Kind::Start,
            shown,
            asked: source.unwrap_or_default().to_owned(),
            tokens: built.tokens,
            text: built.text,
            lines: built.lines.into_iter().map(|line| (line.layer, line.text)).collect(),
            ms,
            newest: table::newest_observations(&self.database, &self.project.name, 1)?
                .pop()
                .unwrap_or_default(),
            learned: table::learned(&self.database, &self.project.name, LEARNED, now)?
                .into_iter()
                .map(|learned| format!("{}: {}", learned.category, learned.content))
                .collect(),
            ..self.case(session, now)
        };
        self.cases.push(case);
        Ok(())
    }

    fn ask(
        &mut self,
        session: &SessionStamp,
        kind: Kind,
        asked: String,
        trigger: &Trigger,
        now: i64,
    ) -> Result<()> {
        let settings = &self.config.context;
        let budget = match trigger {
            Trigger::Prompt { .. } => settings.per_prompt_budget,
            Trigger::FileEdit { .. } => settings.per_file_budget,
            Trigger::Failure { .. } => settings.on_failure_budget,
        };
        let budget = usize::try_from(budget)?;
        let id = SessionId(session.id.as_str().to_owned());
        let standing = |note| self.standing(note);
        let request = RecallQuery {
            project: &self.project.name,
            project_path: &self.project.root,
            session: &id,
            settings: &self.config.search,
            now,
            budget,
            code: CodeCheck(Some(&standing)),
        };
        let began = Instant::now();
        let snippet: RecallText = in_session::build(&self.database, &request, trigger, &Shown::default())?;
        let ms = began.elapsed().as_secs_f64() * 1000.0;
        let fits = match trigger {
            Trigger::Prompt { text } => in_session::fitted(&self.database, &request, text)?,
            _ => Vec::new(),
        };
        if !snippet.text.is_empty() {
            self.note(trigger.event_type(), session, snippet.log_data(trigger, budget), now)?;
        }
        let text = |memory: &ContextMemory| {
            format!("{} {} {}", memory.title, memory.summary, memory.files_modified.join(" "))
        };
        let candidates = fits.iter().map(|fitted| (fitted.fit, text(&fitted.memory))).take(3).collect();
        let lines = snippet.lines.iter().map(|line| (line.layer, line.text.clone())).collect();
        let shown = self.fates(&snippet.lines)?;
        let case = Case {
            kind,
            shown,
            asked,
            tokens: snippet.tokens,
            text: snippet.text,
            lines,
            ms,
            candidates,
            ..self.case(session, now)
        };
        self.cases.push(case);
        Ok(())
    }

    fn note(&self, event_type: &'static str, session: &SessionStamp, data: Value, now: i64) -> Result<()> {
        let entry = LogEntry { event_type, session: Some(session.id.clone()), data, ..LogEntry::default() };
        Ok(log(&self.database, &entry, now)?)
    }

    fn case(&mut self, session: &SessionStamp, at: i64) -> Case {
        let count = self.count.entry(session.id.as_str().to_owned()).or_default();
        *count += 1;
        Case {
            kind: Kind::Start,
            project: self.project.name.clone(),
            session: session.id.as_str().to_owned(),
            number: *count,
            at,
            newest: 0,
            learned: Vec::new(),
            asked: String::new(),
            text: String::new(),
            tokens: 0,
            ms: 0.0,
            lines: Vec::new(),
            candidates: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// Compares a note with the files as the transcripts leave them. A file whose text is unknown counts as unchanged.
    fn standing(&self, note: i64) -> Option<Standing> {
        let mut anchors = anchors::of_note(&self.database, note).ok()?;
        anchors.retain(|anchor| {
            !self.tree.has(&anchor.file_path) || self.tree.text(&anchor.file_path).is_some()
        });
        let file = |path: &str| self.tree.text(path).map(|text| Arc::new(FileState::of(path, text)));
        (!anchors.is_empty()).then(|| compare::standing(&anchors, file))
    }

    /// The fate of each memory among the lines.
    fn fates(&self, lines: &[Explained]) -> Result<Vec<ShownMemory>> {
        let mut shown = Vec::new();
        for line in lines {
            let turns = match (line.shows, &line.session) {
                (Some(id), _) => {
                    let table = if id > 0 { "observations" } else { "session_summaries" };
                    let sql =
                        format!("SELECT session_id, coalesce(prompt_number, 0) FROM {table} WHERE id = ?1");
                    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                    vec![self.database.prepare_cached(&sql)?.query_row([id.abs()], read)?]
                }
                (None, Some(session)) => self.tree.turns_of(session),
                (None, None) => continue,
            };
            let fate = self.tree.fate(&turns);
            shown.push(ShownMemory { layer: line.layer, text: line.text.clone(), fate });
        }
        Ok(shown)
    }
}

/// The moment before an edit, as the hook sends it.
fn edit(input: &Value, root: &str) -> Option<Trigger> {
    let path = within(input["file_path"].as_str()?, root)?;
    let (mut old, mut new) = (String::new(), String::new());
    let edits = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
    for change in edits.iter().chain([input]) {
        old.push_str(change["old_string"].as_str().unwrap_or_default());
        new.push_str(change["new_string"].as_str().or(change["content"].as_str()).unwrap_or_default());
        old.push('\n');
        new.push('\n');
    }
    let lines = |text: &str, other: &str| -> Vec<String> {
        let kept = |line: &&str| !line.is_empty() && !other.lines().any(|known| known.trim() == *line);
        text.lines().map(str::trim).filter(kept).take(150).map(ToOwned::to_owned).collect()
    };
    let (added, removed) = (lines(&new, &old), lines(&old, &new));
    Some(Trigger::FileEdit { path, added, removed })
}

fn described(trigger: &Trigger) -> String {
    let Trigger::FileEdit { path, added, removed } = trigger else { return String::new() };
    let list = |sign: &str, lines: &[String]| {
        lines.iter().take(12).map(|line| format!("\n{sign} {line}")).collect::<String>()
    };
    format!("{path}{}{}", list("-", removed), list("+", added))
}
