-- What a DuckDB file holds besides tables.

-- name: objects_besides_tables
-- Kind, schema, name and SQL of the views, macros, types and sequences of the current database.
SELECT 'view' AS kind, schema_name, view_name AS name, sql
FROM duckdb_views() WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT 'macro', schema_name, function_name, NULL
FROM duckdb_functions() WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT 'type', schema_name, type_name, NULL
FROM duckdb_types() WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT 'sequence', schema_name, sequence_name, NULL
FROM duckdb_sequences() WHERE database_name = current_database()
ORDER BY ALL;
