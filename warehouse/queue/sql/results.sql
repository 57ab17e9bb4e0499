-- name: page
-- Questions of a job in submitted order, with their answers; if there are words, those that have them.
SELECT
    q.number, q.job_id, q.question_id, q.ordinal, q.question, q.topic, q.answers_json, q.supporting_json, q.metadata_json,
    q.state, q.attempts, q.error, q.error_class, q.finished_at,
    r.answer, r.version, r.strategy, coalesce(r.worker_id, q.worker_id) AS worker_id, r.seconds,
    coalesce(CASE WHEN :with_evidence = 1 THEN r.result_json END, '{}') AS result_json
FROM questions AS q
LEFT JOIN results AS r ON r.job_id = q.job_id AND r.question_id = q.question_id
WHERE q.number > :after AND q.number <= :last AND q.state IN :states
    AND (:words = '' OR lower(q.question) LIKE lower(:words) ESCAPE '~' OR lower(r.answer) LIKE lower(:words) ESCAPE '~')
ORDER BY q.number
LIMIT :limit;

-- name: number
-- The place of a question by the asker's own id.
SELECT number FROM questions WHERE job_id = :job_id AND question_id = :question_id;
