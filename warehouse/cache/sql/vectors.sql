-- Statements of the cache of embeddings (SQLite).

-- name: create_table
-- Vectors by content hash.
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL);

-- name: read_vectors
-- Those of the given keys (a JSON array) that are known.
SELECT key, vector FROM vectors WHERE key IN (SELECT value FROM json_each(:keys));

-- name: write_vector
-- Adds a vector unless its key has one of this length: equal keys mean equal vectors.
INSERT INTO vectors (key, vector) VALUES (:key, :vector)
ON CONFLICT (key) DO UPDATE SET vector = excluded.vector WHERE length(vector) <> length(excluded.vector);

-- name: forget_oldest
-- Removes all but the newest rows; rows are numbered in the order in which they were added.
DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - :most;

-- name: read_keys
-- Keys after one, in order.
SELECT key FROM vectors WHERE key > :after ORDER BY key LIMIT :limit;

-- name: forget_key
-- Removes the vector of a key.
DELETE FROM vectors WHERE key = :key;

-- name: measure
-- Number of vectors and bytes of the database.
SELECT
    (SELECT count(*) FROM vectors) AS row_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;
