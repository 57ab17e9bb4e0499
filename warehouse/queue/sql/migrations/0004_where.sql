-- name: where_text
-- The filter of a job's questions; NULL: all passages.
ALTER TABLE jobs ADD COLUMN where_text TEXT;
