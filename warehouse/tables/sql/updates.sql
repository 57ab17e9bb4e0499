-- Statements about tables that begin as those of the version before: what a file holds.

-- name: tables_of_database
-- Tables of an attached file, with the statement that made each.
SELECT table_name, sql FROM duckdb_tables() WHERE database_name = $database AND NOT temporary AND NOT internal;

-- name: views
-- Views of the database in use.
SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal;

-- name: stored_columns
-- Columns of a table of an attached file that take values.
SELECT column_name FROM duckdb_columns()
WHERE database_name = $database AND table_name = $name AND NOT is_generated ORDER BY column_index;

-- name: database
-- Name of the database in use.
SELECT current_database();
