-- Statements that read the graph in the numbering of the arrays.

-- name: bipartite_edges
-- Passage number, entity number, tf and title flag of every mention of a name, in order.
WITH p AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages),
e AS (SELECT entity_id, row_number() OVER (ORDER BY key) - 1 AS n FROM entities WHERE is_named)
SELECT p.n AS passage, e.n AS entity, sum(m.tf)::DOUBLE AS tf, bool_or(m.is_title) AS is_title
FROM mentions AS m JOIN p ON p.passage_id = m.unit_id JOIN e ON e.entity_id = m.entity_id
WHERE m.level = 'passage'
GROUP BY p.n, e.n
ORDER BY p.n, e.n;

-- name: node_counts
-- Number of passages and of named entities.
SELECT (SELECT count(*) FROM passages), (SELECT count(*) FROM entities WHERE is_named);

-- name: passage_texts
-- Title and text of passages in number order.
SELECT passage_id, title, text FROM passages ORDER BY passage_id LIMIT $limit OFFSET $offset;

-- name: entity_texts
-- Name and description of named entities in number order.
SELECT entity_id, name, description FROM entities WHERE is_named ORDER BY key LIMIT $limit OFFSET $offset;
