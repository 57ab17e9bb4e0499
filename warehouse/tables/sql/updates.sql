-- Statements about the file of tables that begin as those of the version before: what it holds, what changed.

-- name: tables
-- Tables of the database in use.
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary AND NOT internal;

-- name: views
-- Views of the database in use.
SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND NOT internal;

-- name: touched_ids
-- Ids in rows that came or went, and the columns in which they stand.
CREATE OR REPLACE TEMP TABLE touched_ids AS SELECT DISTINCT id, column_name FROM read_parquet($files);

-- name: missing_entities
-- Those of them that no entity has: it went, or a row that came names none.
CREATE OR REPLACE TEMP TABLE missing_entities AS
SELECT DISTINCT id FROM touched_ids ANTI JOIN entities ON entities.entity_id = touched_ids.id
WHERE column_name IN ('entity_id', 'source_id', 'target_id');

-- name: some_are_touched
-- Invariants look at rows with such ids: what concerns another one is as it was in the version before.
CREATE OR REPLACE TEMP MACRO is_touched(one) AS one IN (SELECT t.id FROM touched_ids AS t);
CREATE OR REPLACE TEMP MACRO is_no_entity(one) AS one IN (SELECT m.id FROM missing_entities AS m);

-- name: all_are_touched
-- Invariants look at all rows.
CREATE OR REPLACE TEMP MACRO is_touched(one) AS true;
CREATE OR REPLACE TEMP MACRO is_no_entity(one) AS one NOT IN (SELECT e.entity_id FROM entities AS e);
