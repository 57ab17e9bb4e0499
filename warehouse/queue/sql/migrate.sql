-- name: create_migrations
-- What was applied to this database.
CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at DOUBLE PRECISION NOT NULL);

-- name: applied
-- The newest version applied, 0 if none.
SELECT coalesce(max(version), 0) AS version FROM schema_migrations;

-- name: add_migration
-- Notes that a version was applied.
INSERT INTO schema_migrations (version, name, applied_at) VALUES (:version, :name, :now);
