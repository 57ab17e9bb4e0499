-- name: next_number
-- Takes a range of numbers; the row stays locked until the end of the transaction.
UPDATE counters SET value = value + :count WHERE name = :name RETURNING value - :count + 1 AS first_number;

-- name: job_by_key
-- The job that a key was used for.
SELECT job_id, content_hash FROM jobs WHERE submission_key = :submission_key;

-- name: waiting
-- Depth of a queue.
SELECT count(*) AS waiting FROM questions WHERE queue = :queue AND state = 'queued';

-- name: add_job
-- The job before its questions.
INSERT INTO jobs (
    job_id, submission_key, content_hash, name, queue, index_name, strategy, parameters_json, passage_limit, priority,
    max_attempts, deadline_seconds, deadline_at, submitted_at, changed_at, first_number, question_count, min_confidence,
    where_text
) VALUES (
    :job_id, :submission_key, :content_hash, :name, :queue, :index_name, :strategy, :parameters_json, :passage_limit,
    :priority, :max_attempts, :deadline_seconds, :deadline_at, :now, :now, :first_number, :question_count,
    :min_confidence, :where_text
);

-- name: add_question
-- A waiting question.
INSERT INTO questions (
    number, job_id, ordinal, question_id, question, topic, answers_json, supporting_json, metadata_json, queue,
    effective_at, available_at, deadline_at, state, attempts, max_attempts, lost_leases
) VALUES (
    :number, :job_id, :ordinal, :question_id, :question, :topic, :answers_json, :supporting_json, :metadata_json, :queue,
    :effective_at, :available_at, :deadline_at, 'queued', 0, :max_attempts, 0
);
