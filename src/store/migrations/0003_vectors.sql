-- Why: memories are also found by their meaning. A model turns each into a direction, and search compares directions.
-- No index: comparing all of a project takes a few milliseconds, is exact, and leaves nothing to corrupt.

CREATE TABLE search_models (
  no        INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  dimension INTEGER NOT NULL
) STRICT;

-- By the same places as search_index, so that a project is one range. The vector is its length (float32) and one signed
-- byte for each dimension.
CREATE TABLE search_vectors (
  place  INTEGER PRIMARY KEY,
  model  INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  vector BLOB NOT NULL
) STRICT;

-- Rows that were changed since they may have got a vector. New rows need no entry: search_progress knows how far the worker
-- has come.
CREATE TABLE search_stale (place INTEGER PRIMARY KEY) STRICT;
