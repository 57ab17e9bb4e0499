-- Statements of the cache of embeddings (SQLite).

-- name: create_table
-- Vectors by content hash.
CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL);

-- name: read_vectors
-- Those of the given keys (a JSON array) that are known.
SELECT key, vector FROM vectors WHERE key IN (SELECT value FROM json_each(:keys));

-- name: write_vector
-- Adds a vector unless its key is known: equal keys mean equal vectors.
INSERT OR IGNORE INTO vectors (key, vector) VALUES (:key, :vector);

-- name: measure
-- Number of vectors and bytes of the database.
SELECT
    (SELECT count(*) FROM vectors) AS row_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;
