-- Statements that compare passages with those of an earlier version, which is attached as `before`.

-- name: numbers_before
-- Number that each passage had in the version before, -1 if it was not there with this title and text; in number order.
WITH b AS (
    SELECT passage_id, content_hash, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM before.passages
)
SELECT coalesce(b.n, -1) AS number
FROM passages AS p LEFT JOIN b ON b.passage_id = p.passage_id AND b.content_hash = p.content_hash
ORDER BY p.passage_id;

-- name: changed_texts
-- Title and text of the passages that were not there with these, in number order.
SELECT passage_id, title, text FROM passages ANTI JOIN before.passages AS b USING (passage_id, content_hash)
ORDER BY passage_id;
