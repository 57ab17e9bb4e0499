-- name: quick_check
-- What SQLite finds wrong with the file: "ok", or the first faults.
SELECT quick_check FROM pragma_quick_check(10);
