-- The local side of synchronisation. Created by `sync init` and `sync join`, dropped by `sync leave`: without synchronisation
-- the schema that every hook parses stays as it is. Lost tables are rebuilt from the server and from the memories.

CREATE TABLE sync_state (
  only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
  team      TEXT NOT NULL,
  device    TEXT NOT NULL,
  -- A fingerprint of machine and directory: a copied database becomes another device.
  place     TEXT NOT NULL,
  -- The hybrid logical clock: of the last record made here, and of the latest that was seen.
  clock     INTEGER NOT NULL DEFAULT 0,
  seen      INTEGER NOT NULL DEFAULT 0,
  -- The last record made here, and the last one that the server has.
  seq       INTEGER NOT NULL DEFAULT 0,
  acked     INTEGER NOT NULL DEFAULT 0,
  acked_id  TEXT NOT NULL DEFAULT '',
  synced_at INTEGER,
  problem   TEXT
) STRICT;

-- The version of every memory that was sent or received. An item is a letter and a uid: o observation, s summary, l learning,
-- d digest of a session, v veto; or a mark: h hidden, p pinned and r restored of an observation, a active, q pinned and t
-- restored of a learning.
CREATE TABLE sync_items (
  item   TEXT PRIMARY KEY,
  hlc    INTEGER NOT NULL,
  device TEXT NOT NULL,
  -- Of the row's content here: a row that did not change is not sent.
  hash   INTEGER NOT NULL,
  -- 1: the team has this version; 2: an earlier one; 0: none.
  shared INTEGER NOT NULL,
  -- The value of a mark, which may arrive before its memory; the time of a veto, which may be lifted.
  value  TEXT,
  -- The item that this one refers to, which may arrive later.
  refers TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX sync_items_refers ON sync_items (refers) WHERE refers IS NOT NULL;

-- Items whose rows changed here.
CREATE TABLE sync_dirty (item TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Records that the server may not have yet, as readable JSON. An empty body: forgotten before it was sent.
CREATE TABLE sync_outbox (
  seq     INTEGER PRIMARY KEY,
  id      TEXT NOT NULL,
  kind    INTEGER NOT NULL,
  item    TEXT NOT NULL,
  project TEXT NOT NULL,
  hlc     INTEGER NOT NULL,
  shared  INTEGER NOT NULL,
  body    TEXT NOT NULL
) STRICT;
CREATE INDEX sync_outbox_items ON sync_outbox (item);

-- The last record of each other device that was applied or set aside.
CREATE TABLE sync_cursors (device TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Records that could not be sent or applied. The place is device/seq of a received record, or the item of an unsent one.
CREATE TABLE sync_refused (
  place  TEXT PRIMARY KEY,
  device TEXT NOT NULL,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of forgotten memories: uid:…; veto:…, session:… and project:… with the time up to which they hold.
CREATE TABLE sync_forgotten (
  key    TEXT NOT NULL,
  until  INTEGER NOT NULL,
  -- The clock of the record: a digest, which changes with its session, is forgotten up to there.
  hlc    INTEGER NOT NULL,
  shared INTEGER NOT NULL,
  -- 1: another member's, which covers only what the team has.
  is_foreign INTEGER NOT NULL,
  PRIMARY KEY (key, is_foreign)
) STRICT, WITHOUT ROWID;

-- Forgotten memories whose bodies the server may still have: an item, ref:…, or project:…, and the clock up to which they go.
CREATE TABLE sync_purges (what TEXT PRIMARY KEY, hlc INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- A veto is the same on every device if it blocks the same statement in the same project.
CREATE VIEW sync_vetoes AS
  SELECT id, key || ':' || CASE project WHEN '' THEN '' ELSE coalesce(
           (SELECT p.key FROM projects p WHERE p.name = v.project ORDER BY p.key NOT LIKE 'git:%', p.key LIMIT 1), 'name:' || v.project) END AS uid,
         nullif(project, '') AS project, statement, created_at
  FROM vetoes v;

-- Without OR IGNORE: a foreign key's action, as deleting an observation has on its learnings, would turn it into an error.
CREATE TRIGGER sync_observation_came AFTER INSERT ON observations BEGIN
  INSERT INTO sync_dirty SELECT 'o:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'o:' || new.uid);
END;
CREATE TRIGGER sync_observation_changed AFTER UPDATE ON observations BEGIN
  INSERT INTO sync_dirty SELECT 'o:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'o:' || new.uid);
END;
CREATE TRIGGER sync_summary_came AFTER INSERT ON session_summaries BEGIN
  INSERT INTO sync_dirty SELECT 's:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 's:' || new.uid);
END;
CREATE TRIGGER sync_summary_changed AFTER UPDATE ON session_summaries BEGIN
  INSERT INTO sync_dirty SELECT 's:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 's:' || new.uid);
END;
CREATE TRIGGER sync_learning_came AFTER INSERT ON learnings BEGIN
  INSERT INTO sync_dirty SELECT 'l:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'l:' || new.uid);
END;
CREATE TRIGGER sync_learning_changed AFTER UPDATE ON learnings BEGIN
  INSERT INTO sync_dirty SELECT 'l:' || new.uid WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'l:' || new.uid);
END;
-- Every hook updates its session: only a changed digest counts.
CREATE TRIGGER sync_session_changed AFTER UPDATE OF title, outcome, open_items ON sessions
  WHEN new.title IS NOT old.title OR new.outcome IS NOT old.outcome OR new.open_items IS NOT old.open_items
BEGIN
  INSERT INTO sync_dirty SELECT 'd:' || new.id WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'd:' || new.id);
END;
CREATE TRIGGER sync_session_came AFTER INSERT ON sessions WHEN new.title IS NOT NULL BEGIN
  INSERT INTO sync_dirty SELECT 'd:' || new.id WHERE NOT EXISTS (SELECT 1 FROM sync_dirty WHERE item = 'd:' || new.id);
END;
CREATE TRIGGER sync_veto_came AFTER INSERT ON vetoes BEGIN
  INSERT INTO sync_dirty SELECT 'v:' || uid FROM sync_vetoes WHERE id = new.id AND 'v:' || uid NOT IN (SELECT item FROM sync_dirty);
END;
CREATE TRIGGER sync_veto_changed AFTER UPDATE ON vetoes BEGIN
  INSERT INTO sync_dirty SELECT 'v:' || uid FROM sync_vetoes WHERE id = new.id AND 'v:' || uid NOT IN (SELECT item FROM sync_dirty);
END;
-- Lifting a veto is a version of it.
CREATE TRIGGER sync_veto_lifted BEFORE DELETE ON vetoes BEGIN
  INSERT INTO sync_dirty SELECT 'v:' || uid FROM sync_vetoes WHERE id = old.id AND 'v:' || uid NOT IN (SELECT item FROM sync_dirty);
END;
