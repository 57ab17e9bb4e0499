-- Statements that read the graph in the numbering of the arrays.

-- name: bipartite_edges
-- Passage number, entity number, tf and title flag of every mention of a name, in no order.
WITH p AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages),
e AS (SELECT entity_id, row_number() OVER (ORDER BY key) - 1 AS n FROM entities WHERE is_named)
SELECT p.n AS passage, e.n AS entity, m.tf, m.is_title
FROM mentions AS m JOIN p ON p.passage_id = m.unit_id JOIN e ON e.entity_id = m.entity_id
WHERE m.level = 'passage';

-- name: node_counts
-- Number of passages and of named entities.
SELECT (SELECT count(*) FROM passages), (SELECT count(*) FROM entities WHERE is_named);

-- name: all_passage_texts
-- Title and text of all passages in number order.
SELECT passage_id, title, text FROM passages ORDER BY passage_id;

-- name: relation_edges
-- Numbers of source, target and label of every relation between two named entities, in no order. Spreading and chains
-- are defined on simple graphs: relations of an entity to itself, which only a knowledge graph has, stay in the table.
WITH e AS (SELECT entity_id, row_number() OVER (ORDER BY key) - 1 AS n FROM entities WHERE is_named),
l AS (SELECT relation, row_number() OVER (ORDER BY relation) - 1 AS n FROM (SELECT DISTINCT relation FROM relations))
SELECT s.n AS source, t.n AS target, l.n AS label
FROM relations AS r
JOIN e AS s ON s.entity_id = r.source_id
JOIN e AS t ON t.entity_id = r.target_id
JOIN l ON l.relation = r.relation
WHERE s.n <> t.n;

-- name: entity_fields
-- Name, type and description of named entities, joined, and how many bytes each has; in number order.
SELECT
    concat(name, type, description) AS texts,
    [strlen(name), coalesce(strlen(type), 0), strlen(description)] AS lengths
FROM entities WHERE is_named ORDER BY key;

-- name: entity_numbers
-- Keys and ids of named entities in number order.
SELECT key, entity_id FROM entities WHERE is_named ORDER BY key;

-- name: fill_title_chunks
-- Edges of passages to names that are part of their titles, as found.
INSERT INTO title_chunks SELECT passage_id, entity_id FROM found_chunks ORDER BY passage_id, entity_id;

-- name: passage_titles
-- Ids and titles of passages in number order.
SELECT passage_id, title FROM passages ORDER BY passage_id;
