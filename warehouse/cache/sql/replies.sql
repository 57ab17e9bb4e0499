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

-- name: create_wanted
-- Requests that wait for a part, are in one (`part`), or came back from one (`is_single`: without a valid reply they are
-- asked by a single call). `body` is the compressed request; numbers are its worst case, at the price of batches.
CREATE TABLE IF NOT EXISTS wanted (
    key TEXT PRIMARY KEY,
    index_name TEXT NOT NULL,
    model TEXT NOT NULL,
    task TEXT NOT NULL,
    prompt_hash TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    body BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    part TEXT NOT NULL DEFAULT '',
    call_id INTEGER NOT NULL DEFAULT 0,
    is_single INTEGER NOT NULL DEFAULT 0
);

-- name: create_parts
-- Parts of what is wanted, frozen before they are submitted as one batch each (`batch_id`, '' until that is noted), and
-- removed when all of their requests came back.
CREATE TABLE IF NOT EXISTS parts (
    part TEXT PRIMARY KEY,
    index_name TEXT NOT NULL,
    model TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    frozen_at REAL NOT NULL
);

-- name: create_wanted_by_part
-- For the requests of a part.
CREATE INDEX IF NOT EXISTS wanted_by_part ON wanted (part, index_name);

-- name: create_wanted_by_call
-- For calls that are no dead ones, because a part holds them.
CREATE INDEX IF NOT EXISTS wanted_by_call ON wanted (call_id);

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
-- Calls that were sent and have not ended, by any process, dead or alive, but those of parts, which outlive processes.
SELECT call_id, key, prompt_tokens, completion_tokens, cost_usd FROM calls
WHERE error = 'InFlight' AND call_id NOT IN (SELECT call_id FROM wanted) ORDER BY call_id;

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
-- What the calls of a model took that brought a text, by task; those of batches, which have no seconds, are taken to
-- last as long as the others.
SELECT task, count(*), sum(prompt_tokens), sum(completion_tokens),
    CASE WHEN min(cost_usd) < 0 THEN -1.0 ELSE sum(cost_usd) END,
    coalesce(sum(seconds) * count(*) / nullif(sum(seconds > 0), 0), 0)
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

-- name: forget_wanted
-- What an earlier run of an index wanted and never submitted.
DELETE FROM wanted WHERE index_name = :index_name AND part = '';

-- name: want_request
-- Notes a request that waits for a part, unless it is in one.
INSERT INTO wanted (key, index_name, model, task, prompt_hash, schema_version, body, bytes,
    prompt_tokens, completion_tokens, cost_usd)
VALUES (:key, :index_name, :model, :task, :prompt_hash, :schema_version, :body, :bytes,
    :prompt_tokens, :completion_tokens, :cost_usd)
ON CONFLICT (key) DO UPDATE SET index_name = :index_name WHERE part = '';

-- name: read_wanted
-- Those of the given keys (a JSON array) that are in a part or came back from one, and whether they came back.
SELECT key, is_single FROM wanted WHERE key IN (SELECT value FROM json_each(:keys)) AND part <> '';

-- name: read_unsubmitted
-- What an index wants and no part holds, in the order of its keys: what limits of parts are about.
SELECT key, bytes, prompt_tokens, completion_tokens, cost_usd FROM wanted
WHERE index_name = :index_name AND model = :model AND part = '' ORDER BY key;

-- name: number_calls
-- The number of the next call in the journal.
SELECT coalesce(max(call_id), 0) + 1 FROM calls;

-- name: put_in_part
-- Puts a request into a part, unless another process has done so.
UPDATE wanted SET part = :part WHERE key = :key AND part = '';

-- name: begin_part_calls
-- Writes the calls of a part into the journal before it is submitted, at their worst case.
INSERT INTO calls (called_at, key, task, model, prompt_tokens, completion_tokens, cost_usd, seconds, error)
SELECT :now, key, task, model, prompt_tokens, completion_tokens, cost_usd, 0, 'InFlight'
FROM wanted WHERE part = :part ORDER BY key;

-- name: note_part_calls
-- Notes the numbers of these calls.
UPDATE wanted SET call_id = (SELECT max(call_id) FROM calls WHERE calls.key = wanted.key) WHERE part = :part;

-- name: freeze_part
-- Notes a part by its requests.
INSERT INTO parts
SELECT :part, :index_name, model, '', count(*), sum(prompt_tokens), sum(completion_tokens),
    CASE WHEN min(cost_usd) < 0 THEN -1.0 ELSE sum(cost_usd) END, :now
FROM wanted WHERE part = :part GROUP BY model;

-- name: read_parts
-- The parts of a model that are not all back, in the order of their freezing.
SELECT part, index_name, batch_id, requests, prompt_tokens, completion_tokens, cost_usd
FROM parts WHERE model = :model ORDER BY frozen_at, part;

-- name: read_part_requests
-- The requests of a part that did not come back yet.
SELECT key, model, task, prompt_hash, schema_version, call_id, prompt_tokens, completion_tokens, cost_usd
FROM wanted WHERE part = :part AND is_single = 0 ORDER BY key;

-- name: read_part_bodies
-- The requests of a part as they are submitted.
SELECT key, body FROM wanted WHERE part = :part ORDER BY key;

-- name: note_submission
-- Notes which batch a part became.
UPDATE parts SET batch_id = :batch_id WHERE part = :part;

-- name: request_came_back
-- A request of a part that was answered, or failed: without a valid reply it is asked by a single call.
UPDATE wanted SET is_single = 1, body = x'' WHERE key = :key;

-- name: forget_request
-- A request that has a reply waits for nothing.
DELETE FROM wanted WHERE key = :key;

-- name: forget_part_requests
-- Requests of a part that was refused as a whole.
DELETE FROM wanted WHERE part = :part;

-- name: forget_part
-- A part whose requests all came back, or that was refused.
DELETE FROM parts WHERE part = :part;

-- name: note_unread_call
-- Why the text of a call, which a batch brought, is no valid reply.
UPDATE calls SET error = :error WHERE key = :key AND error = '';

-- name: note_unread_reply
-- The same beside the text.
UPDATE raw_replies SET error_class = :error WHERE key = :key AND error_class = '';
