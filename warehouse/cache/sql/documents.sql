-- Statements of the cache of documents (SQLite).

-- name: create_table
-- Documents by the hash of all that determined them; `content` is compressed JSON, `checksum` is of key and content.
CREATE TABLE IF NOT EXISTS documents (key TEXT PRIMARY KEY, content BLOB NOT NULL, checksum BLOB NOT NULL);

-- name: read_document
-- The document of a key.
SELECT content, checksum FROM documents WHERE key = :key;

-- name: write_document
-- Adds a document, or puts it in the place of a damaged one: equal keys mean equal documents.
INSERT OR REPLACE INTO documents (key, content, checksum) VALUES (:key, :content, :checksum);

-- name: forget_oldest
-- Removes all but the newest rows; rows are numbered in the order in which they were added.
DELETE FROM documents WHERE rowid <= (SELECT max(rowid) FROM documents) - :most;

-- name: measure
-- Number of documents and bytes of the database.
SELECT
    (SELECT count(*) FROM documents) AS row_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;
