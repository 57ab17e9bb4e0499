-- Statements about the file of tables that begin as those of the version before: what it holds.

-- name: tables
-- Tables of the database in use.
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary AND NOT internal;

-- name: views
-- Views of the database in use.
SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal;
