-- Statements that say where the relations between some entities are stated.

-- name: relation_passages
-- Relations among the entities asked for: how many passages state each, and the first of them.
SELECT s.key, r.relation, t.key, count(*), list_slice(list(x.passage_id ORDER BY x.passage_id), 1, $limit)
FROM relations AS r
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
JOIN relation_sources AS x USING (relation_id)
WHERE s.key IN (SELECT unnest($keys)) AND t.key IN (SELECT unnest($keys))
GROUP BY s.key, r.relation, t.key
ORDER BY s.key, t.key, r.relation;
