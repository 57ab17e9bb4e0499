-- name: min_confidence
-- Answers of a job by rules below this confidence are left empty; NULL: as the worker's settings say.
ALTER TABLE jobs ADD COLUMN min_confidence DOUBLE PRECISION;
