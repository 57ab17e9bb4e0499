-- name: outage
-- Why a worker waits for a model, NULL while it does not.
ALTER TABLE workers ADD COLUMN outage TEXT;

-- name: outage_since
-- When that began.
ALTER TABLE workers ADD COLUMN outage_since DOUBLE PRECISION;
