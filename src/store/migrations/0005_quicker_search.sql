-- Why: search compares all vectors of a project, and fetching each from a row of its own took ten times as long as comparing it.
-- The neighbours in place now share a row. What was there before is made again: only the model is needed for it.

DROP TABLE search_vectors;
DELETE FROM search_progress WHERE what LIKE 'vectors %';
DELETE FROM search_stale;

-- All places with the same place >> 7. For each place in it, in order: one byte, place & 127, then its vector, that is its length
-- (float32) and one signed byte for each dimension of the model.
CREATE TABLE search_vectors (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  vectors BLOB NOT NULL
) STRICT;

-- The worker merges in quiet moments, already two parts of like size: fewer parts, quicker answers.
INSERT INTO search_index (search_index, rank) VALUES ('usermerge', 2);
