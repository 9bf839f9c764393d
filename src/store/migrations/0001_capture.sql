-- Why: the whole record, from the raw event to the observation made of it.
-- Every column that a model fills may be NULL: partial data is kept.

CREATE TABLE sessions (
  id               TEXT PRIMARY KEY,
  project          TEXT NOT NULL DEFAULT '',
  project_path     TEXT NOT NULL DEFAULT '',
  cwd              TEXT,
  branch           TEXT,
  source           TEXT,
  status           TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'interrupted', 'failed')),
  started_at       INTEGER NOT NULL,
  last_activity_at INTEGER NOT NULL,
  ended_at         INTEGER,
  prompt_count     INTEGER NOT NULL DEFAULT 0 CHECK (prompt_count >= 0),
  tokens_in        INTEGER NOT NULL DEFAULT 0,
  tokens_out       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Bought: the context's "last sessions of this project" without a scan.
CREATE INDEX sessions_by_project ON sessions (project_path, started_at);
-- Bought: finding the sessions that went silent without a scan; small, because most sessions have ended. Not by their last
-- activity, which every hook changes.
CREATE INDEX sessions_active ON sessions (id) WHERE status = 'active';

CREATE TABLE user_prompts (
  id            INTEGER PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  prompt_number INTEGER NOT NULL CHECK (prompt_number > 0),
  prompt        TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  UNIQUE (session_id, prompt_number)
) STRICT;

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

-- Bought: a claim that costs the same with a million finished rows as with none.
CREATE INDEX queue_open ON pending_queue (session_id, id) WHERE status IN ('raw', 'processing');
-- Bought: what is under way, counted and given back without a look at all that waits.
CREATE INDEX queue_claimed ON pending_queue (claimed_at) WHERE claimed_at IS NOT NULL;
-- Hooks never touch the indexes below: they hold finished rows only.
-- Bought: errors listed and counted, and old rows found, without a scan.
CREATE INDEX queue_finished ON pending_queue (status, finished_at) WHERE finished_at IS NOT NULL;
-- Bought: the events of a turn that is to be summarised, without a scan.
CREATE INDEX queue_of_session ON pending_queue (session_id, id) WHERE finished_at IS NOT NULL;
-- Bought: payloads that are too old, without a walk over those that are gone already.
CREATE INDEX queue_payloads ON pending_queue (finished_at) WHERE finished_at IS NOT NULL AND payload IS NOT NULL;

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
  deleted_at        INTEGER
) STRICT;

-- Bought: a session's observations in order, for its digest and the timeline.
CREATE INDEX observations_by_session ON observations (session_id, id);
-- Bought: a project's newest observations without a sort.
CREATE INDEX observations_by_project ON observations (project, created_at);
-- Bought: "observations today" in health without a scan.
CREATE INDEX observations_by_time ON observations (created_at, deleted_at);

CREATE TABLE observation_sources (
  observation_id INTEGER NOT NULL REFERENCES observations (id) ON DELETE CASCADE,
  queue_id       INTEGER NOT NULL,
  PRIMARY KEY (observation_id, queue_id)
) STRICT, WITHOUT ROWID;

-- Bought: "what came of this event" without a scan.
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

-- Bought: a session's latest summary, for the session index, without a scan.
CREATE INDEX summaries_by_session ON session_summaries (session_id, id);

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
  updated_at            INTEGER NOT NULL
) STRICT;

-- Bought: the learnings of a project, best first, without a scan.
CREATE INDEX learnings_by_project ON learnings (project, confidence) WHERE is_active = 1;

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
  snapshot_at    INTEGER NOT NULL
) STRICT;

-- Bought: the code that a session changed, grouped by file, without a scan.
CREATE INDEX function_map_by_session ON function_map (session_id, file_path);

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

-- Bought: today's spend, and the last entry of a kind, without a scan.
CREATE INDEX event_log_by_type ON event_log (event_type, created_at);
-- Bought: dropping what is too old without a scan.
CREATE INDEX event_log_by_time ON event_log (created_at);
