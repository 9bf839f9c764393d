-- Why: comparing a million vectors took a fifth of a second. Their outlines, two bits for each number, are a quarter of the bytes,
-- and tell which vectors are worth comparing; those are then read one by one, so fewer of them share a row: eight fit into a page.
-- What was there before is made again: only the model is needed for it.

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

-- All places with the same place >> 9. For each place in it that has a vector, in order: two bytes, place & 511, then its outline:
-- for each number 0 to 3, from far below zero to far above it, far being more than the numbers of that vector are on average. Byte i
-- holds the numbers i, i + n, i + 2n and i + 3n of a vector of 4n, from its lowest bits up.
CREATE TABLE search_outlines (
  block   INTEGER PRIMARY KEY,
  model   INTEGER NOT NULL REFERENCES search_models (no) ON DELETE CASCADE,
  entries BLOB NOT NULL
) STRICT;
