-- name: touch
-- Locks a job, so that cancel, retry and purge wait for each other.
UPDATE jobs SET changed_at = :now WHERE job_id = :job_id RETURNING job_id, deadline_seconds;

-- name: cancel
-- Nothing of the job is asked any more; who holds a question of it loses the lease.
UPDATE questions SET state = 'cancelled', worker_id = NULL, lease_token = NULL, lease_until = NULL, finished_at = :now
WHERE job_id = :job_id AND state IN ('queued', 'leased');

-- name: retry
-- Dead and cancelled questions get all their attempts again.
UPDATE questions
SET state = 'queued', attempts = 0, lost_leases = 0, available_at = :now, deadline_at = :deadline_at, error = NULL,
    error_class = NULL, finished_at = NULL
WHERE job_id = :job_id AND state IN ('dead', 'cancelled');

-- name: stored
-- Questions by the asker's own ids.
SELECT number, question_id, state FROM questions WHERE job_id = :job_id AND question_id IN :question_ids;

-- name: retry_named
-- Chosen questions get all their attempts again.
UPDATE questions
SET state = 'queued', attempts = 0, lost_leases = 0, available_at = :now, deadline_at = :deadline_at, error = NULL,
    error_class = NULL, finished_at = NULL, worker_id = NULL, lease_token = NULL, lease_until = NULL
WHERE number IN :numbers;

-- name: move_deadline
-- The deadline counts from a retry, and may be another from then on.
UPDATE jobs SET deadline_at = :deadline_at, deadline_seconds = :deadline_seconds WHERE job_id = :job_id;

-- name: newest
-- Jobs, the last submitted first.
SELECT
    job_id, name, queue, index_name AS "index", strategy, parameters_json, passage_limit AS "limit", priority, max_attempts,
    submitted_at, deadline_at AS deadline, deadline_seconds, min_confidence, where_text AS "where", first_number, question_count
FROM jobs ORDER BY job_id DESC LIMIT :limit;

-- name: one
-- A job by id.
SELECT
    job_id, name, queue, index_name AS "index", strategy, parameters_json, passage_limit AS "limit", priority, max_attempts,
    submitted_at, deadline_at AS deadline, deadline_seconds, min_confidence, where_text AS "where", first_number, question_count
FROM jobs WHERE job_id = :job_id;

-- name: counts
-- Questions of jobs by state.
SELECT job_id, state, count(*) AS questions FROM questions WHERE job_id IN :job_ids GROUP BY job_id, state;

-- name: dead_reasons
-- Why questions of jobs are dead, the most frequent reason first.
SELECT job_id, error_class, count(*) AS questions, min(error) AS example
FROM questions
WHERE job_id IN :job_ids AND state = 'dead'
GROUP BY job_id, error_class
ORDER BY job_id, questions DESC, error_class;

-- name: open
-- Questions of queues that wait or are being answered.
SELECT
    (SELECT count(*) FROM questions WHERE state = 'queued' AND queue IN :queues)
    + (SELECT count(*) FROM questions WHERE state = 'leased' AND queue IN :queues) AS questions;

-- name: put_off
-- Those of them that wait for a batch of a provider.
SELECT count(*) AS questions FROM questions
WHERE state = 'queued' AND queue IN :queues AND available_at > :now AND error_class = :awaited_class;

-- name: queues
-- Queues to which a job was submitted.
SELECT DISTINCT queue FROM jobs ORDER BY queue;

-- name: totals
-- Questions by queue and state, and when the oldest job among them was submitted.
SELECT j.queue, c.state, sum(c.questions) AS questions, min(j.submitted_at) AS oldest
FROM (SELECT job_id, state, count(*) AS questions FROM questions GROUP BY job_id, state) AS c
JOIN jobs AS j ON j.job_id = c.job_id
GROUP BY j.queue, c.state;

-- name: purgeable
-- Jobs that were finished before a moment, the oldest first.
SELECT job_id FROM jobs
WHERE changed_at < :before
    AND NOT EXISTS (SELECT 1 FROM questions AS q WHERE q.job_id = jobs.job_id AND q.state IN ('queued', 'leased'))
    AND NOT EXISTS (SELECT 1 FROM questions AS q WHERE q.job_id = jobs.job_id AND q.finished_at >= :before)
ORDER BY job_id;

-- name: purge_results
-- Forgets a job: its results.
DELETE FROM results WHERE job_id = :job_id;

-- name: purge_questions
-- Forgets a job: its questions.
DELETE FROM questions WHERE job_id = :job_id;

-- name: purge_job
-- Forgets a job: the job itself.
DELETE FROM jobs WHERE job_id = :job_id;
