-- Why: any row of memory is found by its words, whoever wrote it. Triggers note every row that came, changed or went. The worker
-- brings the index up to date in the transaction of the row itself (store/index.rs); what others wrote it takes up at its
-- next occasion, and search looks at the waiting rows by itself.
-- The triggers are this small because every hook reads the whole schema before it can write a row.

-- The projects' numbers, and how many rows of each are in the index.
CREATE TABLE search_projects (
  no      INTEGER PRIMARY KEY,
  project TEXT NOT NULL UNIQUE,
  rows    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A row of the index is project number << 44 | (kind << 42) | id, kind being 0 observation, 1 summary, 2 prompt.
-- Bought: a project's share of every word's list is one range of it, so that searching one project reads no other.
-- No content: the text is in the tables. Two columns only, because each costs in every row: what a thing is called
-- (title, concepts, files), and what it says.
CREATE VIRTUAL TABLE search_index USING fts5 (
  head, body, content = '', contentless_delete = 1, tokenize = "porter unicode61 remove_diacritics 2"
);
-- Merging is spread over fewer, larger steps: half the cost of an insert.
INSERT INTO search_index (search_index, rank) VALUES ('automerge', 8);

-- Rows that the index has to look at again: kind << 42 | id.
CREATE TABLE search_pending (item INTEGER PRIMARY KEY) STRICT;
-- Every word that occurs, for misspelt and partial ones. The worker adds to it.
CREATE TABLE search_words (word TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- How far the worker has come with the words of each kind.
CREATE TABLE search_progress (what TEXT PRIMARY KEY, id INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TRIGGER search_observation_came AFTER INSERT ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (new.id);
END;
CREATE TRIGGER search_observation_changed AFTER UPDATE ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (old.id), (new.id);
END;
CREATE TRIGGER search_observation_went AFTER DELETE ON observations BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (old.id);
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
END;
CREATE TRIGGER search_prompt_went AFTER DELETE ON user_prompts BEGIN
  INSERT OR IGNORE INTO search_pending VALUES (2 << 42 | old.id);
END;

-- Bought: the timeline around something without a walk over all summaries.
CREATE INDEX summaries_by_project ON session_summaries (project, created_at);

-- What was there before.
INSERT INTO search_pending SELECT id FROM observations;
INSERT INTO search_pending SELECT 1 << 42 | id FROM session_summaries;
INSERT INTO search_pending SELECT 2 << 42 | id FROM user_prompts;
