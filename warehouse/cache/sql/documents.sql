-- Statements of the cache of documents (SQLite).

-- name: create_table
-- Documents by the hash of all that determined them; `content` is compressed JSON.
CREATE TABLE IF NOT EXISTS document_texts (key TEXT PRIMARY KEY, content BLOB NOT NULL);

-- name: read_document
-- The document of a key.
SELECT content FROM document_texts WHERE key = :key;

-- name: write_document
-- Adds a document, or replaces the one of its key: equal keys mean equal documents.
INSERT OR REPLACE INTO document_texts (key, content) VALUES (:key, :content);

-- name: forget_oldest
-- Removes all but the newest rows; rows are numbered in the order in which they were added.
DELETE FROM document_texts WHERE rowid <= (SELECT max(rowid) FROM document_texts) - :most;

-- name: measure
-- Number of documents and bytes of the database.
SELECT
    (SELECT count(*) FROM document_texts) AS row_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;
