-- Why: a function that got another name is the same function, and the map says what it was called before. And what a turn
-- taught is compared with all that is known of its project, forgotten things included.
ALTER TABLE function_map ADD COLUMN renamed_from TEXT;

-- Bought: what is old of a project is found, and what is new of it kept, without a scan of the other projects.
CREATE INDEX function_map_by_project ON function_map (project, snapshot_at, session_id);
-- Bought: a project's learnings, active or not, without a scan.
CREATE INDEX learnings_known ON learnings (project, id);
