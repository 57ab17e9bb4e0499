-- name: clock
-- The server's time, the one clock of all hosts.
SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION) AS now;

-- name: lock_migrations
-- One process at a time changes the tables; freed at the end of the transaction ("polyhop" as a number).
SELECT pg_advisory_xact_lock(31651503486332784);
