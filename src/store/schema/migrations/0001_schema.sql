-- The whole record, from the raw event to the memory made of it, and the index by which it is found.
-- Every column that a model fills may be NULL: partial data is kept.

-- From the identity of a repository (project.rs) to the name that people see, which every other table has in its column
-- project. Keys that the user joined share a name.
CREATE TABLE projects (
  key  TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  -- Where it was first seen.
  path TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  id               TEXT PRIMARY KEY,
  -- live: hooks recorded it; backfill: read from a history; sync: another machine's.
  origin           TEXT NOT NULL DEFAULT 'live' CHECK (origin IN ('live', 'backfill', 'sync')),
  agent            TEXT NOT NULL DEFAULT 'claude-code',
  project_key      TEXT NOT NULL DEFAULT '',
  project          TEXT NOT NULL DEFAULT '',
  project_path     TEXT NOT NULL DEFAULT '',
  cwd              TEXT,
  branch           TEXT,
  source           TEXT,
  -- The digest, rewritten with every turn (compress/digest.rs).
  title            TEXT,
  outcome          TEXT,
  open_items       TEXT CHECK (open_items IS NULL OR json_valid(open_items)),
  status           TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'interrupted', 'failed')),
  started_at       INTEGER NOT NULL,
  last_activity_at INTEGER NOT NULL,
  ended_at         INTEGER,
  prompt_count     INTEGER NOT NULL DEFAULT 0 CHECK (prompt_count >= 0),
  tokens_in        INTEGER NOT NULL DEFAULT 0,
  tokens_out       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Purpose: the context's "last sessions of this project" without a scan.
CREATE INDEX sessions_by_project ON sessions (project, started_at);
-- Purpose: the newest sessions of all projects without a sort: 1 instead of 30 ms among 100,000.
CREATE INDEX sessions_by_time ON sessions (started_at);
-- Purpose: finding the sessions that went silent without a scan; small, because most sessions have ended. Not by their last
-- activity, which every hook changes.
CREATE INDEX sessions_active ON sessions (id) WHERE status = 'active';

CREATE TABLE user_prompts (
  id            INTEGER PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL CHECK (prompt_number > 0),
  prompt        TEXT NOT NULL,
  -- 1 as long as only the hook has seen it, which cannot redact. Nobody but the worker reads a raw prompt.
  is_raw        INTEGER NOT NULL DEFAULT 0 CHECK (is_raw IN (0, 1)),
  created_at    INTEGER NOT NULL,
  UNIQUE (session_id, prompt_number)
) STRICT;

-- Purpose: prompts that wait for redaction, without a scan.
CREATE INDEX prompts_raw ON user_prompts (id) WHERE is_raw = 1;

CREATE TABLE pending_queue (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  event_key       TEXT NOT NULL UNIQUE,
  -- NULL only for a payload that could not be understood.
  session_id      TEXT REFERENCES sessions (id) ON DELETE CASCADE,
  kind            TEXT NOT NULL CHECK (kind IN ('observation', 'summarize', 'flush')),
  tool_name       TEXT,
  tool_use_id     TEXT,
  raw_bytes       INTEGER NOT NULL DEFAULT 0,
  prompt_number   INTEGER,
  cwd             TEXT,
  agent_id        TEXT,
  agent_type      TEXT,
  failed          INTEGER NOT NULL DEFAULT 0 CHECK (failed IN (0, 1)),
  status          TEXT NOT NULL DEFAULT 'raw' CHECK (status IN ('raw', 'processing', 'done', 'skipped', 'error')),
  attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  next_attempt_at INTEGER,
  claimed_at      INTEGER,
  last_error      TEXT,
  created_at      INTEGER NOT NULL,
  finished_at     INTEGER,
  -- Last, because it can be large: what stands behind it is read only through all of its pages.
  payload         TEXT,
  CHECK (session_id IS NOT NULL OR status = 'error'),
  CHECK ((status = 'processing') = (claimed_at IS NOT NULL)),
  CHECK ((status IN ('done', 'skipped', 'error')) = (finished_at IS NOT NULL))
) STRICT;

-- Purpose: a claim that costs the same with a million finished rows as with none.
CREATE INDEX queue_open ON pending_queue (session_id, id) WHERE status IN ('raw', 'processing');
-- Purpose: what is under way, counted and given back without a look at all that waits.
CREATE INDEX queue_claimed ON pending_queue (claimed_at) WHERE claimed_at IS NOT NULL;
-- Hooks never touch the indexes below: they hold finished rows only.
-- Purpose: errors listed and counted, and old rows found, without a scan.
CREATE INDEX queue_finished ON pending_queue (status, finished_at) WHERE finished_at IS NOT NULL;
-- Purpose: the events of a turn, without a scan of the session.
CREATE INDEX queue_of_turn ON pending_queue (session_id, prompt_number, id) WHERE finished_at IS NOT NULL;
-- Purpose: payloads that are too old, without a walk over those that are gone already.
CREATE INDEX queue_payloads ON pending_queue (status, finished_at) WHERE finished_at IS NOT NULL AND payload IS NOT NULL;

CREATE TABLE observations (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  uid               TEXT NOT NULL UNIQUE,
  session_id        TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  project           TEXT NOT NULL DEFAULT '',
  prompt_number     INTEGER,
  type              TEXT NOT NULL DEFAULT 'change'
                    CHECK (type IN ('bugfix', 'feature', 'refactor', 'change', 'discovery', 'decision')),
  title             TEXT,
  summary           TEXT,
  detail            TEXT,
  facts             TEXT CHECK (facts IS NULL OR json_valid(facts)),
  concepts          TEXT CHECK (concepts IS NULL OR json_valid(concepts)),
  files_read        TEXT CHECK (files_read IS NULL OR json_valid(files_read)),
  files_modified    TEXT CHECK (files_modified IS NULL OR json_valid(files_modified)),
  functions_changed TEXT CHECK (functions_changed IS NULL OR json_valid(functions_changed)),
  provider          TEXT,
  model             TEXT,
  prompt_version    TEXT,
  tokens_in         INTEGER,
  tokens_out        INTEGER,
  raw_bytes         INTEGER,
  agent_type        TEXT,
  branch            TEXT,
  created_at        INTEGER NOT NULL,
  deleted_at        INTEGER,
  -- The user's own changes: nothing replaces an edited note, and a pinned one comes first in every context.
  edited_at         INTEGER,
  pinned_at         INTEGER,
  -- Set: the user restored it, so that only a later veto hides it again.
  restored_at       INTEGER,
  -- The uid of the note that replaced this one. A merged note is deleted as well; a superseded one is found by search only.
  superseded_by     TEXT,
  -- Number of sessions that left this note: 1, and one more for each near-duplicate that was merged into it.
  times_seen        INTEGER NOT NULL DEFAULT 1 CHECK (times_seen > 0)
) STRICT;

-- Purpose: a session's observations in order, for its digest and the timeline.
CREATE INDEX observations_by_session ON observations (session_id, id);
-- Purpose: a project's newest observations without a sort.
CREATE INDEX observations_by_project ON observations (project, created_at);
-- Purpose: "observations today" in health without a scan; and the value by day, model and project without the rows, which
-- takes 11 instead of 36 ms for 25,000 notes. Its expressions are those of store/browse/value.rs.
CREATE INDEX observations_by_time ON observations (
  created_at, deleted_at, project, coalesce(model, provider, 'unknown'), raw_bytes,
  coalesce(octet_length(title), 0) + coalesce(octet_length(summary), 0) + coalesce(octet_length(detail), 0)
    + coalesce(octet_length(facts), 0)
);

-- Purpose: pinned notes without a scan.
CREATE INDEX observations_pinned ON observations (project) WHERE pinned_at IS NOT NULL;

-- Purpose: the notes that were forgotten last without a scan.
CREATE INDEX observations_forgotten ON observations (deleted_at) WHERE deleted_at IS NOT NULL;

-- Earlier versions of notes that the user edited.
CREATE TABLE observation_edits (
  id             INTEGER PRIMARY KEY,
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  title          TEXT,
  summary        TEXT,
  detail         TEXT,
  facts          TEXT CHECK (facts IS NULL OR json_valid(facts)),
  -- The time at which this version was replaced.
  created_at     INTEGER NOT NULL
) STRICT;

-- Purpose: the versions of a note without a scan.
CREATE INDEX edits_by_observation ON observation_edits (observation_id, id);

-- Purpose: the notes that a note replaced without a scan.
CREATE INDEX observations_superseded ON observations (superseded_by) WHERE superseded_by IS NOT NULL;

-- The code that a note is about, as its turn left it (src/anchors.rs). A row for each file, and for each function or type.
CREATE TABLE anchors (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  file_path      TEXT NOT NULL,
  -- Empty: the file.
  symbol         TEXT NOT NULL DEFAULT '',
  -- git's blob id of a file, the hash of a symbol's body; empty if it is unknown, or if the turn deleted the symbol.
  hash           TEXT NOT NULL DEFAULT '',
  -- Eight-byte hashes of lines that the turn added to the file and removed from it: a sample.
  added          BLOB NOT NULL DEFAULT x'',
  removed        BLOB NOT NULL DEFAULT x'',
  PRIMARY KEY (observation_id, file_path, symbol)
) STRICT, WITHOUT ROWID;

-- Purpose: the notes about a file that an edit reverses, without a scan.
CREATE INDEX anchors_by_file ON anchors (file_path, observation_id) WHERE symbol = '';

-- Notes whose code no longer is as they left it, by the last check against a working tree.
CREATE TABLE stale_notes (
  observation_id INTEGER PRIMARY KEY REFERENCES observations (id) ON DELETE CASCADE,
  standing       TEXT NOT NULL CHECK (standing IN ('changed', 'gone')),
  checked_at     INTEGER NOT NULL
) STRICT;

-- Branches that notes were made on, as git last described them (store/memory/branches.rs).
CREATE TABLE branches (
  id           INTEGER PRIMARY KEY,
  project      TEXT NOT NULL,
  name         TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('default', 'open', 'deleted', 'unknown')),
  -- Notes of the branch up to this time have reached the default branch.
  merged_until INTEGER NOT NULL DEFAULT 0,
  -- The last known commit of the branch, and its time.
  tip          TEXT,
  tip_at       INTEGER,
  checked_at   INTEGER NOT NULL,
  UNIQUE (project, name)
) STRICT;

CREATE TABLE observation_sources (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  queue_id       INTEGER NOT NULL,
  PRIMARY KEY (observation_id, queue_id)
) STRICT, WITHOUT ROWID;

-- Purpose: "what came of this event" without a scan.
CREATE INDEX sources_by_event ON observation_sources (queue_id);

CREATE TABLE session_summaries (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  uid            TEXT NOT NULL UNIQUE,
  session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  project        TEXT NOT NULL DEFAULT '',
  prompt_number  INTEGER,
  summary        TEXT,
  request        TEXT,
  investigated   TEXT,
  learned        TEXT,
  completed      TEXT,
  next_steps     TEXT,
  notes          TEXT,
  files_read     TEXT CHECK (files_read IS NULL OR json_valid(files_read)),
  files_edited   TEXT CHECK (files_edited IS NULL OR json_valid(files_edited)),
  key_decisions  TEXT CHECK (key_decisions IS NULL OR json_valid(key_decisions)),
  provider       TEXT,
  model          TEXT,
  prompt_version TEXT,
  tokens_in      INTEGER,
  tokens_out     INTEGER,
  created_at     INTEGER NOT NULL
) STRICT;

-- Purpose: a session's latest summary, for the session index, without a scan.
CREATE INDEX summaries_by_session ON session_summaries (session_id, id);
-- Purpose: the timeline around something without a walk over all summaries.
CREATE INDEX summaries_by_project ON session_summaries (project, created_at);

CREATE TABLE learnings (
  id                    INTEGER PRIMARY KEY AUTOINCREMENT,
  uid                   TEXT NOT NULL UNIQUE,
  -- NULL: true everywhere.
  project               TEXT,
  category              TEXT NOT NULL
                        CHECK (category IN ('architecture', 'convention', 'gotcha', 'preference', 'command', 'dependency')),
  content               TEXT NOT NULL,
  confidence            REAL NOT NULL DEFAULT 0.5 CHECK (confidence BETWEEN 0 AND 1),
  times_seen            INTEGER NOT NULL DEFAULT 1 CHECK (times_seen > 0),
  is_active             INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
  superseded_by         INTEGER REFERENCES learnings (id) ON DELETE SET NULL,
  source_observation_id INTEGER REFERENCES observations (id) ON DELETE SET NULL,
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  -- Set: the user wants it to stay, at full confidence.
  pinned_at             INTEGER,
  -- Set: the user restored it, so that only a later veto hides it again.
  restored_at           INTEGER
) STRICT;

-- Purpose: the learnings of a project, best first, without a scan.
CREATE INDEX learnings_by_project ON learnings (project, confidence) WHERE is_active = 1;
-- Purpose: a project's learnings, active or not, without a scan.
CREATE INDEX learnings_known ON learnings (project, id);

-- Statements that the user does not want to see or have stored again, whoever makes them (store/corrections/vetoes.rs).
CREATE TABLE vetoes (
  id         INTEGER PRIMARY KEY,
  -- Empty: in every project.
  project    TEXT NOT NULL DEFAULT '',
  -- A hash of the statement without case, white space and punctuation, or of a context's line.
  key        INTEGER NOT NULL,
  statement  TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (project, key)
) STRICT;

-- Commands and repairs, by session: one becomes a learning when several sessions had it.
CREATE TABLE sightings (
  project    TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('command', 'repair')),
  -- The sentence of the learning that it becomes.
  subject    TEXT NOT NULL,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (project, kind, subject, session_id)
) STRICT, WITHOUT ROWID;

-- Purpose: a session is deleted without a scan of the sightings.
CREATE INDEX sightings_by_session ON sightings (session_id);

CREATE TABLE function_map (
  id             INTEGER PRIMARY KEY,
  session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  project        TEXT NOT NULL DEFAULT '',
  file_path      TEXT NOT NULL,
  qualified_name TEXT NOT NULL,
  kind           TEXT,
  signature      TEXT,
  line_start     INTEGER,
  line_end       INTEGER,
  body_hash      TEXT,
  change_type    TEXT NOT NULL CHECK (change_type IN ('new', 'modified', 'deleted', 'unchanged')),
  -- The qualified name before, if the function got another one.
  renamed_from   TEXT,
  snapshot_at    INTEGER NOT NULL
) STRICT;

-- Purpose: the code that a session changed, grouped by file, without a scan.
CREATE INDEX function_map_by_session ON function_map (session_id, file_path);
-- Purpose: old rows of a project are found, and its new ones kept, without a scan of the other projects.
CREATE INDEX function_map_by_project ON function_map (project, snapshot_at, session_id);

-- Lines that a turn removed from a file and added to it, as eight-byte hashes (store/memory/traces.rs): enough to notice an edit that
-- brings back what was taken out, and to find the turn that wrote a line. No text of the file is kept.
CREATE TABLE edit_traces (
  id            INTEGER PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  project       TEXT NOT NULL DEFAULT '',
  prompt_number INTEGER,
  file_path     TEXT NOT NULL,
  removed       BLOB NOT NULL,
  added         BLOB NOT NULL,
  -- git's blob id of the file after the last edit, if its whole text was known.
  blob          TEXT,
  created_at    INTEGER NOT NULL
) STRICT;

-- Purpose: the edits of one file without a scan.
CREATE INDEX edit_traces_by_file ON edit_traces (project, file_path);
-- Purpose: a session is deleted without a scan of the traces.
CREATE INDEX edit_traces_by_session ON edit_traces (session_id);

-- Failures with what repaired them: a command that then succeeded, or changes to files.
CREATE TABLE repairs (
  id            INTEGER PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  project       TEXT NOT NULL DEFAULT '',
  prompt_number INTEGER,
  -- A hash of the failure's signature.
  signature     INTEGER NOT NULL,
  command       TEXT,
  files         TEXT CHECK (files IS NULL OR json_valid(files)),
  created_at    INTEGER NOT NULL
) STRICT;

-- Purpose: the repairs of one failure without a scan.
CREATE INDEX repairs_by_signature ON repairs (project, signature);
-- Purpose: a session is deleted without a scan of the repairs.
CREATE INDEX repairs_by_session ON repairs (session_id);

-- Histories that agents keep (src/backfill): how far each file was read.
CREATE TABLE backfill_files (
  id          INTEGER PRIMARY KEY,
  path        TEXT NOT NULL UNIQUE,
  agent       TEXT NOT NULL,
  session_id  TEXT,
  -- The file as it was when it was last read.
  size        INTEGER NOT NULL,
  modified_at INTEGER NOT NULL,
  -- Everything before this offset is stored, and so are the session's prompts up to this number.
  read_to     INTEGER NOT NULL DEFAULT 0,
  prompts     INTEGER NOT NULL DEFAULT 0,
  is_done     INTEGER NOT NULL DEFAULT 0 CHECK (is_done IN (0, 1)),
  -- 1: a model may be asked about this session.
  with_model  INTEGER NOT NULL DEFAULT 0 CHECK (with_model IN (0, 1)),
  -- The client's own title of the session.
  title       TEXT,
  read_at     INTEGER NOT NULL
) STRICT;

-- Bought: a claim and a digest look up a session's file without a scan.
CREATE INDEX backfill_by_session ON backfill_files (session_id);

-- Records that made an event, by the hash of their uuid: forks and resumes copy them into other files.
CREATE TABLE backfill_records (
  record INTEGER PRIMARY KEY,
  file   INTEGER NOT NULL
) STRICT;

CREATE TABLE event_log (
  id          INTEGER PRIMARY KEY,
  event_type  TEXT NOT NULL,
  session_id  TEXT,
  data        TEXT CHECK (data IS NULL OR json_valid(data)),
  duration_ms REAL,
  tokens_in   INTEGER,
  tokens_out  INTEGER,
  cost_usd    REAL,
  created_at  INTEGER NOT NULL
) STRICT;

-- Purpose: today's spend, and the last entry of a kind, without a scan.
CREATE INDEX event_log_by_type ON event_log (event_type, created_at);
-- Purpose: dropping what is too old without a scan.
CREATE INDEX event_log_by_time ON event_log (created_at);

-- Search. Triggers note every row that is inserted, updated or deleted; the worker brings the index up to date (store/index.rs),
-- and until then search reads the waiting rows one by one. The triggers are this small because every hook parses the whole schema
-- before it can write a row.

-- The projects' numbers, and how many rows of each are in the index.
CREATE TABLE search_projects (
  no      INTEGER PRIMARY KEY,
  project TEXT NOT NULL UNIQUE,
  rows    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A row of the index is project number << 44 | (kind << 42) | id, kind being 0 observation, 1 summary, 2 prompt.
-- Purpose: a project's share of every word's list is one range of it, so that searching one project reads no other.
-- No content: the text is in the tables. Few columns, because each costs in every row: what a thing is called (title, concepts,
-- files), what it says, and its context (its neighbours in the session, its prompt, its date).
CREATE VIRTUAL TABLE search_index USING fts5 (
  head, body, context, content = '', contentless_delete = 1, tokenize = "porter unicode61 remove_diacritics 2"
);
-- Merging is spread over fewer, larger steps: half the cost of an insert.
INSERT INTO search_index (search_index, rank) VALUES ('automerge', 8);
-- The worker merges when it is idle, already two segments of like size: fewer segments, faster queries.
INSERT INTO search_index (search_index, rank) VALUES ('usermerge', 2);

-- Rows that have to be indexed again: kind << 42 | id.
CREATE TABLE search_pending (item INTEGER PRIMARY KEY) STRICT;
-- Every word that occurs, for misspelt and partial ones. The worker adds to it.
CREATE TABLE search_words (word TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- The progress of the worker with the words of each kind.
CREATE TABLE search_progress (what TEXT PRIMARY KEY, id INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TRIGGER search_observation_came AFTER INSERT ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (new.id);
END;
CREATE TRIGGER search_observation_changed AFTER UPDATE ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (old.id), (new.id);
END;
-- A deleted row is also removed from the context of its neighbours.
CREATE TRIGGER search_observation_went AFTER DELETE ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (old.id);
  INSERT OR IGNORE INTO search_pending SELECT max(id) FROM observations WHERE session_id = old.session_id AND id < old.id HAVING max(id);
  INSERT OR IGNORE INTO search_pending SELECT id FROM observations WHERE session_id = old.session_id AND id > old.id ORDER BY id LIMIT 2;
END;
CREATE TRIGGER search_summary_came AFTER INSERT ON session_summaries BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (1 << 42 | new.id);
END;
CREATE TRIGGER search_summary_changed AFTER UPDATE ON session_summaries BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (1 << 42 | old.id), (1 << 42 | new.id);
END;
CREATE TRIGGER search_summary_went AFTER DELETE ON session_summaries BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (1 << 42 | old.id);
END;
CREATE TRIGGER search_prompt_came AFTER INSERT ON user_prompts BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (2 << 42 | new.id);
END;
CREATE TRIGGER search_prompt_changed AFTER UPDATE ON user_prompts BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (2 << 42 | old.id), (2 << 42 | new.id);
  INSERT OR IGNORE INTO search_pending SELECT id FROM observations WHERE session_id = old.session_id AND prompt_number = old.prompt_number;
END;
CREATE TRIGGER search_prompt_went AFTER DELETE ON user_prompts BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (2 << 42 | old.id);
  INSERT OR IGNORE INTO search_pending SELECT id FROM observations WHERE session_id = old.session_id AND prompt_number = old.prompt_number;
END;

-- Embeddings. No index: comparing all of a project takes a few milliseconds and is exact.
CREATE TABLE search_models (
  no        INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  dimension INTEGER NOT NULL
) STRICT;

-- Rows that were changed since they may have got a vector. New rows need no entry: search_progress knows how far the worker
-- has come.
CREATE TABLE search_stale (place INTEGER PRIMARY KEY) STRICT;

-- All places with the same place >> 3: eight vectors fit into a page. For each place in it, in order: two bytes, place & 7
-- (little-endian), then its vector: its length (float32) and one signed byte for each dimension of the model.
CREATE TABLE search_vectors (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  entries BLOB NOT NULL
) STRICT;

-- Two bits for each number of a vector, a quarter of the bytes, to choose which of a million vectors are worth comparing. All
-- places with the same place >> 9. For each place that has a vector, in order: two bytes, place & 511, then its outline: for each
-- number 0 to 3, from far below zero to far above it, far being more than the numbers of that vector are on average. Byte i holds
-- the numbers i, i + n, i + 2n and i + 3n of a vector of 4n, from its lowest bits up.
CREATE TABLE search_outlines (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  entries BLOB NOT NULL
) STRICT;
