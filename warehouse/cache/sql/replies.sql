-- Statements of the cache of model replies (SQLite).

-- name: create_replies
-- Valid replies by the hash of all that determined them; `reply` is compressed JSON, `usage` numbers are what it took
-- (cost_usd is -1 where the price is unknown).
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    task TEXT NOT NULL,
    prompt_hash TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    reply BLOB NOT NULL,
    rung TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    stored_at REAL NOT NULL
);

-- name: create_raw_replies
-- Every text that was paid for, valid or not, in the order of its arrival; `text` is compressed.
CREATE TABLE IF NOT EXISTS raw_replies (
    key TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    model TEXT NOT NULL,
    text BLOB NOT NULL,
    error_class TEXT NOT NULL,
    calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    stored_at REAL NOT NULL,
    PRIMARY KEY (key, sequence)
);

-- name: create_failures
-- Requests without a reply so far, and why; `revision` is always 0 since replies are read by json_repair.
CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    task TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    error_class TEXT NOT NULL,
    error TEXT NOT NULL,
    revision INTEGER NOT NULL,
    stored_at REAL NOT NULL
);

-- name: create_calls
-- The journal: one row per call, never deleted, so that what was spent stays known.
CREATE TABLE IF NOT EXISTS calls (
    call_id INTEGER PRIMARY KEY,
    called_at REAL NOT NULL,
    key TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    error TEXT NOT NULL
);

-- name: create_calls_by_key
-- For the number of attempts of a request.
CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key);

-- name: create_calls_in_flight
-- For the calls of processes that died.
CREATE INDEX IF NOT EXISTS calls_in_flight ON calls (call_id) WHERE error = 'InFlight';

-- name: read_replies
-- Those of the given keys (a JSON array) that have a reply.
SELECT key, model, reply, rung, attempts, calls, prompt_tokens, completion_tokens, cost_usd, seconds
FROM replies WHERE key IN (SELECT value FROM json_each(:keys));

-- name: read_failures
-- Those of the given keys (a JSON array) that failed.
SELECT key, attempts, error_class, error
FROM failures WHERE key IN (SELECT value FROM json_each(:keys));

-- name: read_raw_replies
-- Raw texts of the given keys (a JSON array), latest first.
SELECT key, text, error_class, calls, prompt_tokens, completion_tokens, cost_usd, seconds
FROM raw_replies WHERE key IN (SELECT value FROM json_each(:keys)) ORDER BY key, sequence DESC;

-- name: begin_call
-- Writes a call into the journal just before it is sent, at its worst case; returns its number.
INSERT INTO calls (called_at, key, task, model, prompt_tokens, completion_tokens, cost_usd, seconds, error)
VALUES (:now, :key, :task, :model, :prompt_tokens, :completion_tokens, :cost_usd, 0, 'InFlight')
RETURNING call_id;

-- name: end_call
-- Replaces the worst case of a call by what it took.
UPDATE calls
SET prompt_tokens = :prompt_tokens, completion_tokens = :completion_tokens, cost_usd = :cost_usd,
    seconds = :seconds, error = :error
WHERE call_id = :call_id;

-- name: read_open_calls
-- Calls that were sent and have not ended, by any process, dead or alive.
SELECT call_id, key, prompt_tokens, completion_tokens, cost_usd FROM calls
WHERE error = 'InFlight' ORDER BY call_id;

-- name: abandon_call
-- A call whose process has died keeps its worst case; whether it was answered stays unknown.
UPDATE calls SET error = 'OutcomeUnknown' WHERE call_id = :call_id AND error = 'InFlight';

-- name: write_raw_reply
-- Adds a raw text after those that its key has.
INSERT INTO raw_replies
SELECT :key, coalesce(max(sequence), 0) + 1, :model, :text, :error,
    :calls, :prompt_tokens, :completion_tokens, :cost_usd, :seconds, :now
FROM raw_replies WHERE key = :key;

-- name: write_reply
-- Stores a valid reply; one that was there (and no longer valid) is replaced.
INSERT OR REPLACE INTO replies (
    key, model, task, prompt_hash, schema_version, reply, rung, attempts,
    calls, prompt_tokens, completion_tokens, cost_usd, seconds, stored_at
)
VALUES (:key, :model, :task, :prompt_hash, :schema_version, :reply, :rung, :attempts,
    :calls, :prompt_tokens, :completion_tokens, :cost_usd, :seconds, :now);

-- name: add_reply
-- Stores a reply from elsewhere unless its key has one.
INSERT OR IGNORE INTO replies (
    key, model, task, prompt_hash, schema_version, reply, rung, attempts,
    calls, prompt_tokens, completion_tokens, cost_usd, seconds, stored_at
)
VALUES (:key, :model, :task, :prompt_hash, :schema_version, :reply, :rung, :attempts,
    :calls, :prompt_tokens, :completion_tokens, :cost_usd, :seconds, :now);

-- name: write_failure
-- Stores why a request has no (valid) reply; the latest reason counts.
INSERT OR REPLACE INTO failures
VALUES (:key, :model, :task, :attempts, :error_class, :error, 0, :now);

-- name: forget_failure
-- A request that has a reply has not failed.
DELETE FROM failures WHERE key = :key;

-- name: forget_answered_failures
-- Requests that have a reply have not failed.
DELETE FROM failures WHERE key IN (SELECT key FROM replies);

-- name: count_calls
-- Calls ever made for a key.
SELECT count(*) FROM calls WHERE key = :key;

-- name: sum_calls
-- What was spent, by model and task (a cost of -1 is unknown, and so is a sum with it); calls without a known outcome count at their worst case.
SELECT model, task, count(*), sum(prompt_tokens), sum(completion_tokens),
    CASE WHEN min(cost_usd) < 0 THEN -1.0 ELSE sum(cost_usd) END, sum(seconds), sum(error <> ''),
    sum(error IN ('InFlight', 'OutcomeUnknown'))
FROM calls GROUP BY model, task ORDER BY model, task;

-- name: sum_answered_calls
-- What the calls of a model took that brought a text, by task.
SELECT task, count(*), sum(prompt_tokens), sum(completion_tokens),
    CASE WHEN min(cost_usd) < 0 THEN -1.0 ELSE sum(cost_usd) END, sum(seconds)
FROM calls WHERE model = :model AND error IN ('', 'MalformedReplyError') GROUP BY task ORDER BY task;

-- name: count_by_task
-- Replies and failures by model and task.
SELECT model, task, sum(is_reply), sum(1 - is_reply)
FROM (SELECT model, task, 1 AS is_reply FROM replies UNION ALL SELECT model, task, 0 FROM failures)
GROUP BY model, task ORDER BY model, task;

-- name: measure
-- Numbers of rows, and bytes of the database.
SELECT
    (SELECT count(*) FROM replies) AS reply_count,
    (SELECT count(*) FROM raw_replies) AS raw_reply_count,
    (SELECT count(*) FROM failures) AS failure_count,
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size) AS byte_count;

-- name: evict_replies
-- Removes replies of a model, stored before a time; NULL stands for any.
DELETE FROM replies
WHERE (:model IS NULL OR model = :model) AND (:before IS NULL OR stored_at < :before);

-- name: evict_failures
-- Removes failures of a model, stored before a time; NULL stands for any.
DELETE FROM failures
WHERE (:model IS NULL OR model = :model) AND (:before IS NULL OR stored_at < :before);

-- name: evict_raw_replies
-- Removes raw texts that belong to no reply and no failure any more.
DELETE FROM raw_replies
WHERE (:model IS NULL OR model = :model) AND (:before IS NULL OR stored_at < :before)
    AND key NOT IN (SELECT key FROM replies) AND key NOT IN (SELECT key FROM failures);

-- name: read_page
-- Replies after a key, in the order of their keys.
SELECT key, model, task, prompt_hash, schema_version, reply, rung, attempts,
    calls, prompt_tokens, completion_tokens, cost_usd, seconds
FROM replies WHERE key > :after ORDER BY key LIMIT :limit;
