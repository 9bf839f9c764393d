-- Why: any row of memory is found by its words, whoever wrote it: triggers keep the index in the row's own transaction.
-- Only prompts wait for the worker (search_pending), because a hook writes them and must not pay for the index; search
-- looks at the waiting ones by itself.
--
-- SQLite has no procedures. The views below stand in for them: an INSERT into one runs its trigger, with each argument
-- evaluated once.

-- The projects' numbers, and how many rows of each are in the index.
CREATE TABLE search_projects (
  no      INTEGER PRIMARY KEY,
  project TEXT NOT NULL UNIQUE,
  rows    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A row of the index is project number << 44 | kind << 42 | id, kind being 0 observation, 1 summary, 2 prompt.
-- Bought: a project's share of every word's list is one range of it, so that searching one project reads no other.
-- No content: the text is in the tables. Two columns only, because each costs in every row: what a thing is called
-- (title, concepts, files), and what it says.
CREATE VIRTUAL TABLE search_index USING fts5 (
  head, body, content = '', tokenize = "porter unicode61 remove_diacritics 2"
);
-- Merging is spread over fewer, larger steps: half the cost of an insert.
INSERT INTO search_index (search_index, rank) VALUES ('automerge', 8);

-- Prompts that are not in the index yet.
CREATE TABLE search_pending (id INTEGER PRIMARY KEY) STRICT;
-- Prompts that are, and where: their project is the session's, which may become known later.
CREATE TABLE search_prompts (id INTEGER PRIMARY KEY, place INTEGER NOT NULL) STRICT;
-- Every word that occurs, for misspelt and partial ones. The worker adds to it.
CREATE TABLE search_words (word TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- How far the worker has come: with the words of each kind, and with a rebuild.
CREATE TABLE search_progress (what TEXT PRIMARY KEY, id INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Puts one text into the index (action NULL) or takes it out ('delete'); does nothing if that is so already.
CREATE VIEW search_feed (action, place, head, body, whole) AS SELECT NULL, NULL, NULL, NULL, NULL;
CREATE TRIGGER search_feed_row INSTEAD OF INSERT ON search_feed
WHEN (new.action IS NULL) <> EXISTS (SELECT 1 FROM search_index_docsize WHERE id = new.place)
BEGIN
  INSERT INTO search_index (search_index, rowid, head, body)
  VALUES (new.action, new.place,
    -- Scripts without blanks between words are found by pairs of characters.
    CASE WHEN new.head GLOB '*[฀-႟ក-៿⺀-鿿ꀀ-꓏가-힣豈-﫿ｦ-ﾟ𠀀-𳎯]*' THEN coalesce((
      SELECT group_concat(iif(substr(new.head, key, 1) GLOB '[฀-႟ក-៿⺀-鿿ꀀ-꓏가-힣豈-﫿ｦ-ﾟ𠀀-𳎯]', ' ' || substr(new.head, key, 2) || ' ',
                              substr(new.head, key, 1)), '')
      FROM json_each('[0' || replace(hex(zeroblob(min(length(new.head), 4000))), '00', ',0') || ']') WHERE key > 0), '')
      || substr(new.head, 4001) ELSE new.head END,
    CASE WHEN new.body GLOB '*[฀-႟ក-៿⺀-鿿ꀀ-꓏가-힣豈-﫿ｦ-ﾟ𠀀-𳎯]*' THEN coalesce((
      SELECT group_concat(iif(substr(new.body, key, 1) GLOB '[฀-႟ក-៿⺀-鿿ꀀ-꓏가-힣豈-﫿ｦ-ﾟ𠀀-𳎯]', ' ' || substr(new.body, key, 2) || ' ',
                              substr(new.body, key, 1)), '')
      FROM json_each('[0' || replace(hex(zeroblob(min(length(new.body), 4000))), '00', ',0') || ']') WHERE key > 0), '')
      || substr(new.body, 4001) ELSE new.body END
    -- refreshToken is also found as refresh and token: a blank before every capital of such words.
    || CASE WHEN new.whole GLOB '*[a-z0-9][A-Z]*' OR new.whole GLOB '*[A-Z][A-Z][a-z]*' THEN char(10) || coalesce((
      SELECT group_concat(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(half
        , 'N', ' N'), 'O', ' O'), 'P', ' P'), 'Q', ' Q'), 'R', ' R'), 'S', ' S'), 'T', ' T'), 'U', ' U'), 'V', ' V')
        , 'W', ' W'), 'X', ' X'), 'Y', ' Y'), 'Z', ' Z'), ' ')
      FROM (SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        value, 'A', ' A'), 'B', ' B'), 'C', ' C'), 'D', ' D'), 'E', ' E'), 'F', ' F'), 'G', ' G'), 'H', ' H')
        , 'I', ' I'), 'J', ' J'), 'K', ' K'), 'L', ' L'), 'M', ' M') AS half
            FROM json_each('[' || replace(json_quote(replace(new.whole, char(10), ' ')), ' ', '","') || ']')
            WHERE value GLOB '*[a-z0-9][A-Z]*' OR value GLOB '*[A-Z][A-Z][a-z]*')), '') ELSE '' END);
  UPDATE search_projects SET rows = rows + iif(new.action IS NULL, 1, -1) WHERE no = new.place >> 44;
END;

-- The same for an observation's columns.
CREATE VIEW search_feed_observation (action, id, project, title, summary, detail, facts, concepts, files_read,
                                     files_modified, functions_changed) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TRIGGER search_feed_observation_row INSTEAD OF INSERT ON search_feed_observation BEGIN
  INSERT INTO search_projects (project) SELECT new.project
  WHERE NOT EXISTS (SELECT 1 FROM search_projects WHERE project = new.project);
  INSERT INTO search_feed_text (action, place, head, body) VALUES (new.action,
    (SELECT no FROM search_projects WHERE project = new.project) << 44 | new.id,
    coalesce(new.title, '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.concepts)), '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.files_modified)), '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.files_read)), ''),
    coalesce(new.summary, '') || coalesce(char(10) || new.detail, '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.facts)), '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.functions_changed)), ''));
END;

-- The same for a summary's columns.
CREATE VIEW search_feed_summary (action, id, project, summary, request, investigated, learned, completed, next_steps, notes,
                                 files_read, files_edited, key_decisions) AS
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TRIGGER search_feed_summary_row INSTEAD OF INSERT ON search_feed_summary BEGIN
  INSERT INTO search_projects (project) SELECT new.project
  WHERE NOT EXISTS (SELECT 1 FROM search_projects WHERE project = new.project);
  INSERT INTO search_feed_text (action, place, head, body) VALUES (new.action,
    (SELECT no FROM search_projects WHERE project = new.project) << 44 | 1 << 42 | new.id,
    coalesce(new.request, '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.files_edited)), '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.files_read)), ''),
    coalesce(new.summary, '') || coalesce(char(10) || new.investigated, '') || coalesce(char(10) || new.learned, '')
    || coalesce(char(10) || new.completed, '') || coalesce(char(10) || new.next_steps, '')
    || coalesce(char(10) || new.notes, '')
    || coalesce(char(10) || (SELECT group_concat(value, char(10)) FROM json_each(new.key_decisions)), ''));
END;

-- The whole text, evaluated once for the two looks that search_feed takes at it.
CREATE VIEW search_feed_text (action, place, head, body) AS SELECT NULL, NULL, NULL, NULL;
CREATE TRIGGER search_feed_text_row INSTEAD OF INSERT ON search_feed_text BEGIN
  INSERT INTO search_feed (action, place, head, body, whole)
  VALUES (new.action, new.place, new.head, new.body, new.head || char(10) || new.body);
END;

CREATE TRIGGER search_observation_inserted AFTER INSERT ON observations WHEN new.deleted_at IS NULL BEGIN
  INSERT INTO search_feed_observation VALUES (NULL, new.id, new.project, new.title, new.summary, new.detail, new.facts,
    new.concepts, new.files_read, new.files_modified, new.functions_changed);
END;
CREATE TRIGGER search_observation_deleted AFTER DELETE ON observations WHEN old.deleted_at IS NULL BEGIN
  INSERT INTO search_feed_observation VALUES ('delete', old.id, old.project, old.title, old.summary, old.detail, old.facts,
    old.concepts, old.files_read, old.files_modified, old.functions_changed);
END;
CREATE TRIGGER search_observation_updated AFTER UPDATE OF id, project, title, summary, detail, facts, concepts, files_read,
  files_modified, functions_changed, deleted_at ON observations
BEGIN
  INSERT INTO search_feed_observation
  SELECT 'delete', old.id, old.project, old.title, old.summary, old.detail, old.facts, old.concepts, old.files_read,
    old.files_modified, old.functions_changed WHERE old.deleted_at IS NULL;
  INSERT INTO search_feed_observation
  SELECT NULL, new.id, new.project, new.title, new.summary, new.detail, new.facts, new.concepts, new.files_read,
    new.files_modified, new.functions_changed WHERE new.deleted_at IS NULL;
END;

CREATE TRIGGER search_summary_inserted AFTER INSERT ON session_summaries BEGIN
  INSERT INTO search_feed_summary VALUES (NULL, new.id, new.project, new.summary, new.request, new.investigated,
    new.learned, new.completed, new.next_steps, new.notes, new.files_read, new.files_edited, new.key_decisions);
END;
CREATE TRIGGER search_summary_deleted AFTER DELETE ON session_summaries BEGIN
  INSERT INTO search_feed_summary VALUES ('delete', old.id, old.project, old.summary, old.request, old.investigated,
    old.learned, old.completed, old.next_steps, old.notes, old.files_read, old.files_edited, old.key_decisions);
END;
CREATE TRIGGER search_summary_updated AFTER UPDATE OF id, project, summary, request, investigated, learned, completed,
  next_steps, notes, files_read, files_edited, key_decisions ON session_summaries
BEGIN
  INSERT INTO search_feed_summary VALUES ('delete', old.id, old.project, old.summary, old.request, old.investigated,
    old.learned, old.completed, old.next_steps, old.notes, old.files_read, old.files_edited, old.key_decisions);
  INSERT INTO search_feed_summary VALUES (NULL, new.id, new.project, new.summary, new.request, new.investigated,
    new.learned, new.completed, new.next_steps, new.notes, new.files_read, new.files_edited, new.key_decisions);
END;

-- Takes a prompt from search_pending into the index. Of a pasted log the beginning is enough.
CREATE VIEW search_feed_prompt (id, project, prompt) AS SELECT NULL, NULL, NULL;
CREATE TRIGGER search_feed_prompt_row INSTEAD OF INSERT ON search_feed_prompt BEGIN
  INSERT INTO search_projects (project) SELECT new.project
  WHERE NOT EXISTS (SELECT 1 FROM search_projects WHERE project = new.project);
  INSERT INTO search_prompts (id, place)
  SELECT new.id, no << 44 | 2 << 42 | new.id FROM search_projects WHERE project = new.project;
  INSERT INTO search_feed_text (action, place, head, body)
  SELECT NULL, place, '', substr(new.prompt, 1, 20000) FROM search_prompts WHERE id = new.id;
  DELETE FROM search_pending WHERE id = new.id;
END;
CREATE TRIGGER search_prompt_inserted AFTER INSERT ON user_prompts BEGIN
  INSERT INTO search_pending VALUES (new.id);
END;
CREATE TRIGGER search_prompt_deleted AFTER DELETE ON user_prompts BEGIN
  INSERT INTO search_feed_text (action, place, head, body)
  SELECT 'delete', place, '', substr(old.prompt, 1, 20000) FROM search_prompts WHERE id = old.id;
  DELETE FROM search_prompts WHERE id = old.id;
  DELETE FROM search_pending WHERE id = old.id;
END;
CREATE TRIGGER search_prompt_updated AFTER UPDATE OF id, prompt ON user_prompts BEGIN
  INSERT INTO search_feed_text (action, place, head, body)
  SELECT 'delete', place, '', substr(old.prompt, 1, 20000) FROM search_prompts WHERE id = old.id;
  DELETE FROM search_prompts WHERE id = old.id;
  DELETE FROM search_pending WHERE id = old.id;
  INSERT INTO search_pending VALUES (new.id);
END;

-- Bought: the timeline around something without a walk over all summaries.
CREATE INDEX summaries_by_project ON session_summaries (project, created_at);

-- What was there before.
INSERT INTO search_feed_observation
SELECT NULL, id, project, title, summary, detail, facts, concepts, files_read, files_modified, functions_changed
FROM observations WHERE deleted_at IS NULL;
INSERT INTO search_feed_summary
SELECT NULL, id, project, summary, request, investigated, learned, completed, next_steps, notes, files_read, files_edited,
  key_decisions FROM session_summaries;
INSERT INTO search_pending SELECT id FROM user_prompts;
