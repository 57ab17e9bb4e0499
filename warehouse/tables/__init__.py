"""DuckDB: the staging file while a version is built, the read-only file once it is published."""
