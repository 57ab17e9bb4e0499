-- name: candidates
-- locking: skip
-- The next waiting questions of a queue, by priority with ageing, then as submitted.
SELECT number, job_id, ordinal, question_id, question, topic, queue, effective_at, deadline_at AS deadline, attempts, max_attempts, lost_leases
FROM questions
WHERE queue = :queue AND state = 'queued' AND available_at <= :now
ORDER BY effective_at, number
LIMIT :limit;

-- name: job_specs
-- How to answer questions of these jobs.
SELECT job_id, index_name AS "index", strategy, parameters_json, passage_limit AS "limit", min_confidence, where_text AS "where"
FROM jobs WHERE job_id IN :job_ids;

-- name: lease
-- Gives a locked question to a worker.
UPDATE questions
SET state = 'leased', attempts = attempts + 1, worker_id = :worker_id, lease_token = :lease_token, lease_until = :lease_until
WHERE number = :number AND state = 'queued';

-- name: undo_claim
-- Takes back what an interrupted try of the same claim may have leased.
UPDATE questions
SET state = 'queued', attempts = attempts - 1, worker_id = NULL, lease_token = NULL, lease_until = NULL
WHERE state = 'leased' AND worker_id = :worker_id AND lease_token = number || '.' || CAST(:claim_id AS TEXT);

-- name: expired
-- locking: skip
-- Leases that ran out: their workers are dead or cut off.
SELECT number, attempts, max_attempts, lost_leases
FROM questions
WHERE state = 'leased' AND lease_until <= :now
ORDER BY lease_until
LIMIT :limit;

-- name: expire
-- Takes a lease that ran out away from its worker.
UPDATE questions
SET state = :state, available_at = :now, lost_leases = lost_leases + 1, worker_id = NULL, lease_token = NULL,
    lease_until = NULL, error = :error, error_class = :error_class, finished_at = :finished_at
WHERE number = :number AND state = 'leased';

-- name: pass_deadlines
-- Waiting questions whose time is over.
UPDATE questions
SET state = 'dead', error = 'deadline passed', error_class = :error_class, finished_at = :now
WHERE state = 'queued' AND deadline_at IS NOT NULL AND deadline_at <= :now;
