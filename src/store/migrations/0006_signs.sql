-- Why: comparing a million vectors took a fifth of a second. The signs of their numbers are an eighth of the bytes, and tell which
-- vectors are worth comparing; those are then read one by one, so fewer of them share a row: eight fit into a page. What was there
-- before is made again: only the model is needed for it.

DROP TABLE search_vectors;
DELETE FROM search_progress WHERE what LIKE 'vectors %';
DELETE FROM search_stale;

-- All places with the same place >> 3. For each place in it, in order: two bytes, place & 7 (little-endian), then its vector, that
-- is its length (float32) and one signed byte for each dimension of the model.
CREATE TABLE search_vectors (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  entries BLOB NOT NULL
) STRICT;

-- All places with the same place >> 9. For each place in it that has a vector, in order: two bytes, place & 511, then the signs of
-- its numbers, one bit for each dimension, set where it is negative, the lowest bit of a byte first.
CREATE TABLE search_signs (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  entries BLOB NOT NULL
) STRICT;
