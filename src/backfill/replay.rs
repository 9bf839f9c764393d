//! Replays histories through the capture rules of the hook, in small batches, while hooks and the worker run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use super::{Happening, HistorySource, LeftOut, Sink, Stop, Transcript};
use crate::capture::{self, Verb};
use crate::config::{Config, Environment};
use crate::model::{Event, EventBody, EventKey, Millis};
use crate::paths::Home;
use crate::privacy::redact::Redactor;
use crate::project::Project;
use crate::store::backfill::{FileMarker, HistoryFile, KnownPrompt, KnownTurn, ReplayStep};
use crate::store::maintenance::limits;
use crate::store::{self, StoreError, backfill as store_backfill, queue};

/// Events and bytes of one transaction: hooks wait for the lock no longer than that takes.
const MOST_STEPS: usize = 48;
const MOST_BYTES: usize = 64 << 10;

/// Rows that may wait for the worker before reading pauses, so that the database does not grow with the history.
const MOST_WAITING: i64 = 2_000;

/// The pause between two transactions while somebody works, in times of what one takes.
const USED_PAUSE: u32 = 16;

/// The worker is nudged no more often.
const NUDGE_EVERY: Duration = Duration::from_millis(100);

/// A session whose hooks were heard of within this time records itself.
const IN_USE: Millis = 10 * 60_000;

/// A hook and the client's own record of a prompt are never farther apart than this.
const SAME_PROMPT: Millis = 10 * 60_000;

/// Patience with a busy database.
const PATIENCE_MS: u32 = 10_000;

/// The choice of sessions, and of a model.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only sessions of this directory's project.
    pub project: Option<std::path::PathBuf>,
    /// Only sessions that were used since then.
    pub since: Option<Millis>,
    /// A model may be asked.
    pub with_model: bool,
}

/// Figures of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the words say it")]
pub struct ReplayReport {
    /// By agent.
    pub agents: BTreeMap<&'static str, u64>,
    pub files: u64,
    pub bytes: u64,
    /// Files that are as they were when they were last read.
    pub unchanged: u64,
    /// Sessions that are recording themselves now.
    pub in_use: u64,
    pub sessions: u64,
    pub prompts: u64,
    pub tools: u64,
    pub turns: u64,
    /// Events that hooks or an earlier run stored.
    pub known: u64,
    /// Events that the user does not want recorded.
    pub excluded: u64,
    pub new_rows: u64,
    pub left_out: BTreeMap<LeftOut, u64>,
    pub unreadable: Vec<String>,
    /// Tokens that the agents used.
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Bytes of each turn's prompt, events and closing message that a model would see, at most.
    pub turn_bytes: Vec<u32>,
}

/// The progress of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub struct Far {
    pub bytes: u64,
    pub total_bytes: u64,
    pub sessions: u64,
    pub total_sessions: u64,
    pub events: u64,
}

/// Receives the progress; returns false to end the replay.
pub type Watch<'a> = dyn FnMut(Far) -> bool + 'a;

/// Replays transcripts.
pub struct Replay<'a> {
    home: &'a Home,
    config: Config,
    environment: &'a Environment,
    options: Options,
    database: Option<Connection>,
    is_dry: bool,
    watch: &'a mut Watch<'a>,
    far: Far,
    report: ReplayReport,
    seen: HashSet<String>,
    /// The file that had a record first, where nothing is stored.
    records: HashMap<i64, u64>,
    nudged: Option<Instant>,
}

impl<'a> Replay<'a> {
    /// Nothing is read yet. A dry one stores nothing, and needs no database.
    pub fn new(
        home: &'a Home,
        config: &Config,
        environment: &'a Environment,
        options: Options,
        is_dry: bool,
        watch: &'a mut Watch<'a>,
    ) -> Result<Self, StoreError> {
        let mut config = config.clone();
        capture::limit_payload_on_low_disk(home, &mut config);
        let database = match is_dry {
            true => store::open_to_read(home, PATIENCE_MS).ok(),
            false => Some(store::open_for_hook(home, PATIENCE_MS)?),
        };
        let (far, report) = (Far::default(), ReplayReport::default());
        Ok(Self {
            home,
            config,
            environment,
            options,
            database,
            is_dry,
            watch,
            far,
            report,
            seen: HashSet::new(),
            records: HashMap::new(),
            nudged: None,
        })
    }

    /// Replays all of them in order. A file that cannot be read stops nothing; a database that cannot be written does.
    pub fn run(mut self, transcripts: &[Transcript]) -> Result<ReplayReport, StoreError> {
        let wanted: Vec<&Transcript> =
            transcripts.iter().filter(|transcript| self.is_wanted(transcript)).collect();
        self.far.total_bytes = wanted.iter().map(|transcript| transcript.size).sum();
        self.far.total_sessions = wanted.len() as u64;
        let mut before = 0;
        for transcript in wanted {
            before += transcript.size;
            match self.file(transcript) {
                Ok(()) => {}
                Err(Stop::Interrupted) => break,
                Err(Stop::Store(error)) => return Err(error),
                Err(Stop::Io(error)) => {
                    self.report.unreadable.push(format!("{}: {error}", transcript.path.display()));
                }
            }
            self.far.bytes = before;
            self.far.sessions += 1;
            if !(self.watch)(self.far) {
                break;
            }
        }
        Ok(self.report)
    }

    fn is_wanted(&self, transcript: &Transcript) -> bool {
        let is_recent = self.options.since.is_none_or(|since| transcript.last >= since);
        is_recent
            && self.options.project.as_deref().is_none_or(|wanted| {
                let key = |path: &Path| Project::of(path, &self.config.capture).key;
                transcript.cwd.as_deref().is_some_and(|cwd| key(Path::new(cwd)) == key(wanted))
            })
    }

    fn file(&mut self, transcript: &Transcript) -> Result<(), Stop> {
        let now = now();
        let path = transcript.path.to_string_lossy().into_owned();
        let marker = match &self.database {
            Some(database) => store_backfill::marker(database, &path)?,
            None => None,
        };
        let is_same = |marker: &FileMarker| {
            marker.is_done && marker.size == transcript.size && marker.modified_at == transcript.modified_at
        };
        if marker.as_ref().is_some_and(is_same) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let known = match &self.database {
            Some(database) => store_backfill::session(database, &transcript.session)?,
            None => None,
        };
        let is_in_use = |known: &store_backfill::KnownSession| {
            known.is_live && known.is_active && known.last_activity_at > now - IN_USE
        };
        if known.as_ref().is_some_and(is_in_use) {
            self.report.in_use += 1;
            return Ok(());
        }
        let marker = marker.filter(|marker| transcript.size >= marker.read_to).unwrap_or_default();
        let mut environment = self.environment.clone();
        // A session that began in an excluded project stays excluded wherever it goes.
        environment.project_dir = transcript.cwd.as_deref().map(Into::into);
        let mut reading = Reading {
            file: HistoryFile {
                path,
                agent: transcript.agent.as_str(),
                session: transcript.session.clone(),
                size: transcript.size,
                modified_at: transcript.modified_at,
                with_model: self.options.with_model,
                title: None,
            },
            agent: transcript.agent,
            launch: transcript.cwd.clone(),
            environment,
            is_live: known.is_some_and(|known| known.is_live),
            prompts: Vec::new(),
            last: transcript.last,
            last_prompt: marker.prompts,
            turn: ReplayedTurn::New,
            steps: Vec::new(),
            bytes: 0,
            turn_bytes: 0,
            has_events: false,
            now,
            replay: self,
        };
        reading.load_prompts(marker.prompts)?;
        let is_over = transcript.agent.reader().read(transcript, marker.read_to, &mut reading);
        reading.finish(is_over)
    }

    /// Waits while more rows wait for the worker than it needs. Without a worker the database must not reach its limit.
    fn keep_pace(&mut self, took: Duration) -> Result<(), Stop> {
        let Some(database) = &self.database else { return Ok(()) };
        if queue::is_used(database, now())? {
            // Somebody works: most of the time the database belongs to their hooks.
            std::thread::sleep((took * USED_PAUSE).min(Duration::from_millis(200)));
        }
        while queue::open_work(database)?.raw > MOST_WAITING {
            if !crate::nudge::send(self.home) {
                if limits::is_over(self.home, self.config.retention.max_mb) {
                    return Err(StoreError::Full.into());
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
            if !(self.watch)(self.far) {
                return Err(Stop::Interrupted);
            }
        }
        Ok(())
    }
}

/// The turn that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayedTurn {
    New,
    /// Its prompt is stored under this number.
    Known(i64, KnownTurn),
}

/// A stored prompt that a record may turn out to be.
struct StoredPrompt {
    prompt: KnownPrompt,
    hash: u64,
}

/// One file as it is replayed.
struct Reading<'r, 'a> {
    replay: &'r mut Replay<'a>,
    file: HistoryFile,
    agent: HistorySource,
    launch: Option<String>,
    environment: Environment,
    is_live: bool,
    /// Stored prompts that were not met yet, in order.
    prompts: Vec<StoredPrompt>,
    /// The time of the last record.
    last: Millis,
    /// The number of the last prompt that was read.
    last_prompt: i64,
    turn: ReplayedTurn,
    steps: Vec<ReplayStep>,
    bytes: usize,
    turn_bytes: usize,
    has_events: bool,
    now: Millis,
}

impl Reading<'_, '_> {
    fn load_prompts(&mut self, after: i64) -> Result<(), StoreError> {
        let Some(database) = &self.replay.database else { return Ok(()) };
        let prompts = &mut self.prompts;
        store_backfill::for_each_prompt(database, &self.file.session, after, |prompt| {
            let hash = text_hash(&prompt.text);
            let prompt = KnownPrompt { text: String::new(), ..prompt };
            prompts.push(StoredPrompt { prompt, hash });
        })
    }

    /// The event that the hook would have made; none if the user does not want it recorded.
    fn accept(&self, happening: &Happening) -> Option<Event> {
        let mut payload = String::with_capacity(happening.members.len() + 256);
        let members = [("session_id", Some(self.file.session.as_str())), ("cwd", happening.cwd.as_deref())];
        for (name, value) in members {
            if let Some(value) = value {
                super::json::push_member(&mut payload, name, &super::json::quoted(value));
            }
        }
        let payload = format!("{{{payload},{}}}", happening.members);
        let config = &self.replay.config;
        let mut event = capture::event_from(
            happening.verb,
            payload.into_bytes(),
            happening.at,
            config,
            &self.environment,
        )?;
        if let Some(key) = &happening.key {
            event.key = EventKey::Exact(format!("{}:{key}", self.file.session));
        }
        let session = event.session.as_mut()?;
        session.branch = happening.branch.clone().filter(|branch| !branch.is_empty() && branch != "HEAD");
        if session.project_key.is_empty() {
            let cwd = happening.cwd.as_deref().or(self.launch.as_deref()).unwrap_or_default();
            name_foreign(session, cwd, self.launch.as_deref(), self.agent);
        }
        Some(event)
    }

    fn prompt(&mut self, event: Event) {
        let EventBody::Prompt { text } = &event.body else { return };
        self.close_turn();
        let hash = text_hash(text);
        self.turn_bytes += text.len();
        let is_it = |candidate: &StoredPrompt| {
            let stored_at = candidate.prompt.created_at;
            // A prompt that was stored after the history's end was sent again by somebody: its time proves nothing.
            let is_near = (stored_at - event.at).abs() <= SAME_PROMPT || stored_at > self.last + SAME_PROMPT;
            candidate.hash == hash && is_near
        };
        let Some(at) = self.prompts.iter().position(is_it) else {
            self.turn = ReplayedTurn::New;
            return self.steps.push(ReplayStep::Event { event: Box::new(event), turn: None });
        };
        let prompt = self.prompts.remove(at).prompt;
        let turn =
            self.replay.database.as_ref().map(|database| {
                store_backfill::turn(database, &self.file.session, &prompt).unwrap_or_default()
            });
        self.replay.report.known += 1;
        self.turn = ReplayedTurn::Known(prompt.number, turn.unwrap_or_default());
        self.steps.push(ReplayStep::Known(prompt.number));
    }

    /// True if an event of the turn may be new.
    fn may_be_new(&self, happening: &Happening) -> bool {
        match self.turn {
            ReplayedTurn::New => true,
            ReplayedTurn::Known(_, turn) => {
                let is_closed = self.is_live
                    && (happening.is_unhooked || (happening.verb == Verb::Summary && turn.has_ended));
                turn.is_kept && !is_closed
            }
        }
    }

    fn close_turn(&mut self) {
        let bytes = std::mem::take(&mut self.turn_bytes);
        if bytes > 0 && self.replay.is_dry {
            self.replay.report.turn_bytes.push(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    fn flush(&mut self, is_done: bool) -> Result<(), Stop> {
        let steps = std::mem::take(&mut self.steps);
        self.bytes = 0;
        if self.replay.is_dry || (steps.is_empty() && !is_done && self.file.title.is_none()) {
            return Ok(());
        }
        let Some(database) = &mut self.replay.database else { return Ok(()) };
        let began = Instant::now();
        let stored = store_backfill::store(database, &self.file, &steps, self.last_prompt, is_done, now())?;
        self.last_prompt = stored.last_prompt;
        let took = began.elapsed();
        self.replay.report.new_rows += stored.new;
        self.replay.report.known += stored.known;
        if self.replay.nudged.is_none_or(|nudged| nudged.elapsed() > NUDGE_EVERY) || is_done {
            crate::nudge::send(self.replay.home);
            self.replay.nudged = Some(Instant::now());
        }
        if !(self.replay.watch)(self.replay.far) {
            return Err(Stop::Interrupted);
        }
        self.replay.keep_pace(took)
    }

    fn finish(mut self, outcome: Result<bool, Stop>) -> Result<(), Stop> {
        self.close_turn();
        let report = &mut self.replay.report;
        report.files += 1;
        report.bytes += self.file.size;
        *report.agents.entry(self.file.agent).or_default() += 1;
        if self.has_events && self.replay.seen.insert(self.file.session.clone()) {
            self.replay.report.sessions += 1;
        }
        match outcome {
            Ok(is_over) => self.flush(is_over),
            // What was read before the fault is kept.
            Err(Stop::Io(error)) => self.flush(false).and(Err(Stop::Io(error))),
            Err(stop) => Err(stop),
        }
    }
}

impl Sink for Reading<'_, '_> {
    fn take(&mut self, mut happening: Happening) -> Result<(), Stop> {
        happening.cwd = happening.cwd.map(|cwd| without_lost_worktree(&cwd).to_owned());
        if let Some(record) = &happening.record {
            let record = record_hash(record);
            if self.replay.is_dry {
                self.replay.records.entry(record).or_insert(self.replay.report.files);
            }
            self.steps.push(ReplayStep::Record(record));
        }
        let Some(event) = self.accept(&happening) else {
            self.replay.report.excluded += 1;
            return Ok(());
        };
        let report = &mut self.replay.report;
        match happening.verb {
            Verb::New => report.prompts += 1,
            Verb::Save => report.tools += 1,
            Verb::Summary => report.turns += 1,
            _ => {}
        }
        self.has_events = true;
        self.replay.far.events += u64::from(happening.verb != Verb::End);
        self.bytes += happening.members.len();
        if happening.verb == Verb::New {
            self.prompt(event);
        } else if happening.verb == Verb::End {
            // Hooks end a live session.
            if !self.is_live {
                self.steps.push(ReplayStep::Event { event: Box::new(event), turn: None });
            }
        } else if self.may_be_new(&happening) {
            self.turn_bytes += happening.members.len();
            let turn = match self.turn {
                ReplayedTurn::Known(number, _) => Some(number),
                ReplayedTurn::New => None,
            };
            self.steps.push(ReplayStep::Event { event: Box::new(event), turn });
        } else {
            self.replay.report.known += 1;
        }
        if self.steps.len() >= MOST_STEPS || self.bytes >= MOST_BYTES { self.flush(false) } else { Ok(()) }
    }

    fn is_copy(&mut self, record: &str) -> Result<bool, Stop> {
        let record = record_hash(record);
        let first = self.replay.records.get(&record);
        if first.is_some_and(|file| *file != self.replay.report.files) {
            return Ok(true);
        }
        let Some(database) = &self.replay.database else { return Ok(false) };
        Ok(store_backfill::is_copy(database, record, &self.file.path)?)
    }

    fn restart_at(&mut self, offset: u64) {
        self.steps.push(ReplayStep::Restart(offset));
    }

    fn leave_out(&mut self, why: LeftOut) {
        *self.replay.report.left_out.entry(why).or_default() += 1;
    }

    fn title(&mut self, title: String) {
        // A slug is no title.
        if title.contains(' ') {
            self.file.title = Some(Redactor::new().redact(title.trim()).into_string());
        }
    }

    fn usage(&mut self, tokens_in: u64, tokens_out: u64) {
        self.replay.report.tokens_in += tokens_in;
        self.replay.report.tokens_out += tokens_out;
    }

    fn advance(&mut self, bytes: u64) {
        self.replay.far.bytes += bytes;
    }

    fn now(&self) -> Millis {
        self.now
    }
}

/// A worktree that the client made and removed again belongs to the directory in which it lay.
fn without_lost_worktree(cwd: &str) -> &str {
    let cut = ["/.claude/worktrees/", "/.worktrees/"].iter().find_map(|folder| cwd.find(folder));
    match cut {
        Some(at) if !Path::new(cwd).exists() => &cwd[..at],
        _ => cwd,
    }
}

/// Names the project of a directory that is none of this machine, by the directory in which the session began.
fn name_foreign(
    session: &mut crate::model::SessionStamp,
    cwd: &str,
    launch: Option<&str>,
    agent: HistorySource,
) {
    let slashed = |path: &str| path.replace('\\', "/");
    let (cwd, launch) = (slashed(cwd), launch.map(slashed).unwrap_or_default());
    let launch = without_lost_worktree(&launch).to_owned();
    let root = if !launch.is_empty() && cwd.starts_with(&launch) { launch } else { cwd.clone() };
    session.cwd = cwd;
    if root.is_empty() {
        session.project = agent.as_str().to_owned();
        session.project_key = format!("path:{}", agent.as_str());
        return;
    }
    let name = root.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    session.project = name.to_owned();
    session.project_key = format!("path:{root}");
    session.project_path = root;
}

/// A prompt's text as two arrivals of it have it in common: hooks store it raw, the worker redacts it.
fn text_hash(text: &str) -> u64 {
    xxh3_64(Redactor::new().redact(text.trim()).into_string().trim().as_bytes())
}

fn record_hash(record: &str) -> i64 {
    i64::from_ne_bytes(xxh3_64(record.as_bytes()).to_ne_bytes())
}

fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
