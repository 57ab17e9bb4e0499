-- Statements of the cache of embeddings (SQLite).

-- name: create_table
-- Vectors by content hash; `checksum` is of key and vector, NULL in rows that older versions wrote.
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB);

-- name: read_vectors
-- Those of the given keys (a JSON array) that are known.
SELECT key, vector, checksum FROM vectors WHERE key IN (SELECT value FROM json_each(:keys));

-- name: write_vector
-- Adds a vector unless its key is known: equal keys mean equal vectors.
INSERT OR IGNORE INTO vectors (key, vector, checksum) VALUES (:key, :vector, :checksum);

-- name: forget_oldest
-- Removes all but the newest rows; rows are numbered in the order in which they were added.
DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - :most;

-- name: forget_vector
-- Removes a damaged row, unless another process has replaced it meanwhile.
DELETE FROM vectors WHERE key = :key AND vector IS :vector AND checksum IS :checksum;

-- name: read_keys
-- Keys after one, in order.
SELECT key FROM vectors WHERE key > :after ORDER BY key LIMIT :limit;

-- name: forget_key
-- Removes the vector of a key.
DELETE FROM vectors WHERE key = :key;

-- name: seal_vector
-- Gives a row of an older version its checksum.
UPDATE vectors SET checksum = :checksum WHERE key = :key AND checksum IS NULL;

-- name: measure
-- Number of vectors and bytes of the database.
SELECT
    (SELECT count(*) FROM vectors) AS row_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;
