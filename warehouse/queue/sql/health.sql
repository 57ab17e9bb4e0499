-- name: unmatched
-- Questions that break the invariant: finished exactly if there is an answer.
SELECT count(*) AS questions
FROM questions AS q
LEFT JOIN results AS r ON r.job_id = q.job_id AND r.question_id = q.question_id
WHERE (q.state = 'done') <> (r.job_id IS NOT NULL);
