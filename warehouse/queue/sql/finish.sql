-- name: extend
-- Renews leases that are still held.
UPDATE questions SET lease_until = :lease_until
WHERE number IN :numbers AND lease_token IN :lease_tokens AND state = 'leased'
RETURNING lease_token;

-- name: finish
-- Closes questions whose lease is still held; the token stays, so that a repeated call recognises its own work.
UPDATE questions SET state = 'done', lease_until = NULL, error = NULL, error_class = NULL, finished_at = :now
WHERE number IN :numbers AND lease_token IN :lease_tokens AND state = 'leased'
RETURNING job_id, question_id, worker_id, lease_token;

-- name: finished_before
-- What an interrupted try of the same call already closed.
SELECT lease_token FROM questions WHERE number IN :numbers AND lease_token IN :lease_tokens AND state = 'done';

-- name: add_result
-- The answer of a question just closed.
INSERT INTO results (job_id, question_id, answer, version, strategy, worker_id, seconds, finished_at, result_json)
VALUES (:job_id, :question_id, :answer, :version, :strategy, :worker_id, :seconds, :now, :result_json);

-- name: held
-- locking: wait
-- Questions whose lease is still held.
SELECT number, attempts, max_attempts, lost_leases, lease_token
FROM questions
WHERE number IN :numbers AND lease_token IN :lease_tokens AND state = 'leased'
ORDER BY number;

-- name: fail
-- Puts a question whose lease is held back into the queue, or among the dead.
UPDATE questions
SET state = :state, available_at = :available_at, error = :error, error_class = :error_class, finished_at = :finished_at,
    worker_id = NULL, lease_token = NULL, lease_until = NULL
WHERE number = :number AND state = 'leased';

-- name: release
-- Gives leases that are held back unused; NULL as `awaited` leaves an earlier error.
UPDATE questions
SET state = 'queued', attempts = attempts - 1, available_at = :available_at, worker_id = NULL, lease_token = NULL,
    lease_until = NULL, error = coalesce(:awaited, error), error_class = coalesce(:awaited_class, error_class)
WHERE number IN :numbers AND state = 'leased';

-- name: wake
-- Questions that were put off are next again.
UPDATE questions SET available_at = :now
WHERE queue IN :queues AND state = 'queued' AND available_at > :now AND error_class = :awaited_class;
