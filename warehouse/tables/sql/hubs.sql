-- What hubs are found in: nodes and triples as numbers. Nodes are numbered by ascending own id, predicates by their
-- text, triples by (subject, predicate, object), passages by ascending id.

-- name: nodes_of_graph
-- Nodes of a knowledge graph with all their types; a value without an id has its entity's.
CREATE OR REPLACE TEMP TABLE numbered_nodes AS
SELECT *, row_number() OVER (ORDER BY own_id, entity_id) - 1 AS n
FROM (
    SELECT e.entity_id, coalesce(d.node_id, e.entity_id) AS own_id, e.name, e.is_literal,
        from_json(d.types_json, '["VARCHAR"]') AS types
    FROM entities AS e JOIN nodes AS d USING (entity_id)
);

-- name: nodes_of_corpus
-- Entities that relations name, or that documents are named after; own ids are keys. The latter are of the type
-- `document`, too: of the entities that a title has as keys, the one with the longest spelling has the whole title.
CREATE OR REPLACE TEMP TABLE numbered_nodes AS
WITH titles AS (
    SELECT DISTINCT arg_max(entity_id, (length(surface), entity_id)) AS entity_id
    FROM mentions WHERE level = 'passage' AND is_title GROUP BY unit_id
),
related AS (SELECT source_id AS entity_id FROM relations UNION SELECT target_id FROM relations)
SELECT e.entity_id, e.key AS own_id, e.name, e.is_literal,
    list_filter([e.type, if(t.entity_id IS NULL, NULL, 'document')], lambda x: x IS NOT NULL) AS types,
    row_number() OVER (ORDER BY e.key) - 1 AS n
FROM entities AS e
LEFT JOIN titles AS t USING (entity_id)
LEFT JOIN related AS r USING (entity_id)
WHERE t.entity_id IS NOT NULL OR r.entity_id IS NOT NULL;

-- name: number_predicates
-- Numbers of the predicates.
CREATE OR REPLACE TEMP TABLE numbered_predicates AS
SELECT relation, row_number() OVER (ORDER BY relation) - 1 AS n FROM (SELECT DISTINCT relation FROM relations);

-- name: nodes
-- Nodes in number order.
SELECT entity_id, own_id, name, is_literal FROM numbered_nodes ORDER BY n;

-- name: predicates
-- Predicates in number order.
SELECT relation FROM numbered_predicates ORDER BY n;

-- name: triples
-- Triples in number order.
SELECT s.n AS subject, p.n AS predicate, o.n AS object, r.relation_id
FROM relations AS r
JOIN numbered_nodes AS s ON s.entity_id = r.source_id
JOIN numbered_predicates AS p USING (relation)
JOIN numbered_nodes AS o ON o.entity_id = r.target_id
ORDER BY s.n, p.n, o.n;

-- name: known_types
-- Types of nodes.
SELECT DISTINCT unnest(types) AS type FROM numbered_nodes ORDER BY type;

-- name: nodes_of_types
-- Nodes of some types, and all of their types.
SELECT n, types FROM numbered_nodes WHERE list_has_any(types, $types) ORDER BY n;

-- name: nodes_of_labels
-- Nodes by label.
SELECT n, name FROM numbered_nodes WHERE name IN (SELECT unnest($labels)) ORDER BY n;

-- name: types_of_hubs
-- Types that hubs have.
SELECT DISTINCT unnest(types) AS type FROM numbered_nodes SEMI JOIN hubs ON hub_id = entity_id ORDER BY type;

-- name: passages_of_triples
-- Numbers of triples and of the passages that state them.
WITH d AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages),
t AS (
    SELECT r.relation_id, row_number() OVER (ORDER BY s.n, p.n, o.n) - 1 AS n
    FROM relations AS r
    JOIN numbered_nodes AS s ON s.entity_id = r.source_id
    JOIN numbered_predicates AS p USING (relation)
    JOIN numbered_nodes AS o ON o.entity_id = r.target_id
)
SELECT t.n AS thing, d.n AS passage
FROM relation_sources AS x JOIN t USING (relation_id) JOIN d USING (passage_id) ORDER BY thing, passage;

-- name: passages_attached_to_hubs
-- Numbers of nodes that are hubs of a graph, and of the passages that were attached to them.
WITH d AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages)
SELECT DISTINCT h.n AS thing, d.n AS passage
FROM node_passages AS a
JOIN (SELECT n, entity_id FROM numbered_nodes SEMI JOIN hubs ON hub_id = entity_id) AS h USING (entity_id)
JOIN d USING (passage_id)
ORDER BY thing, passage;

-- name: passages_of_hubs
-- Numbers of entities that are hubs of texts, and of the passages that mention them or have them in their title.
WITH d AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages)
SELECT DISTINCT h.n AS thing, d.n AS passage
FROM mentions AS m
JOIN (SELECT n, entity_id FROM numbered_nodes SEMI JOIN hubs ON hub_id = entity_id) AS h USING (entity_id)
JOIN d ON d.passage_id = m.unit_id
WHERE m.level = 'passage' ORDER BY thing, passage;

-- name: nodes_by_type
-- Covered and other nodes by type; a node of several types counts for each.
WITH typed AS (
    SELECT
        unnest(CASE WHEN is_literal THEN ['(literal)'] WHEN len(types) = 0 THEN ['(no type)'] ELSE types END) AS type,
        is_covered
    FROM numbered_nodes JOIN covered_nodes USING (n)
)
SELECT type, count(*) FILTER (is_covered), count(*) FILTER (NOT is_covered) FROM typed GROUP BY type;

-- name: triples_by_predicate
-- Covered and other triples by predicate.
SELECT p.relation, count(*) FILTER (c.is_covered), count(*) FILTER (NOT c.is_covered)
FROM covered_triples AS c JOIN numbered_predicates AS p ON p.n = c.predicate GROUP BY p.relation;

-- name: fill_hub_paths
-- All paths.
INSERT INTO hub_paths FROM read_parquet($paths) ORDER BY hub_id, path_hash;

-- name: content_of_paths
-- Number and checksum of the paths with their texts.
SELECT count(*), coalesce(hex(bit_xor(md5_number(p::VARCHAR))), '') FROM hub_paths AS p;

-- name: hub_texts
-- Distinct texts of one kind, for their vectors.
SELECT text_id AS id, text AS first, '' AS second, ordinal AS rank FROM hub_texts WHERE kind = $kind;
