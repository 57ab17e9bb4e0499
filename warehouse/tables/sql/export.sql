-- Rows of a published version as they go to a graph database, in the order of their keys.

-- name: documents
-- Documents.
SELECT document_id, title, passage_count FROM documents ORDER BY document_id;

-- name: paragraphs
-- Passages.
SELECT passage_id, record_id, ordinal, title, text, content_hash FROM passages ORDER BY passage_id;

-- name: entities
-- Entities; those with a vector with its row in the matrix of vectors and the hash of what was embedded.
WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY is_named ORDER BY key) - 1 AS n FROM entities)
SELECT e.entity_id, e.key, e.norm_name, e.name, e.type, e.description, e.is_named, e.document_count,
       v.content_hash, CASE WHEN e.is_named AND v.content_hash IS NOT NULL THEN e.n END AS number
FROM numbered AS e LEFT JOIN embeddings AS v ON v.owner_kind = 'entity' AND v.owner_id = e.entity_id
ORDER BY e.entity_id;

-- name: graph_nodes
-- Entities as nodes of a graph in files.
SELECT entity_id AS id, name, type, description, df FROM entities ORDER BY entity_id;

-- name: graph_edges
-- Relations as edges of a graph in files; the weight is how often one was stated.
SELECT r.source_id AS source, r.target_id AS target, r.relation AS label, r.count AS weight, r.confidence,
       coalesce(s.passages, []) AS passages
FROM relations AS r LEFT JOIN (
    SELECT relation_id, list(passage_id ORDER BY passage_id) AS passages FROM relation_sources GROUP BY relation_id
) AS s USING (relation_id)
ORDER BY r.relation_id;

-- name: document_paragraphs
-- Which passages a document has.
SELECT document_id, passage_id FROM passages ORDER BY document_id, passage_id;

-- name: document_mentions
-- Which entities a document mentions, in any passage or as a whole.
SELECT document_id, entity_id FROM (
    SELECT unit_id AS document_id, entity_id FROM mentions WHERE level = 'document'
    UNION
    SELECT p.document_id, m.entity_id FROM mentions AS m JOIN passages AS p ON p.passage_id = m.unit_id
    WHERE m.level = 'passage'
)
ORDER BY document_id, entity_id;

-- name: paragraph_mentions
-- Which passage mentions which entity how often.
SELECT unit_id AS passage_id, entity_id, sum(tf)::BIGINT AS tf FROM mentions
WHERE level = 'passage' GROUP BY ALL ORDER BY unit_id, entity_id;

-- name: relations
-- Relations with the passages that state them.
SELECT r.relation_id, r.source_id, r.target_id, r.relation, r.count, r.confidence, r.extractor,
       coalesce(s.passages, []) AS provenance
FROM relations AS r LEFT JOIN (
    SELECT relation_id, list(passage_id ORDER BY passage_id) AS passages FROM relation_sources GROUP BY relation_id
) AS s USING (relation_id)
ORDER BY r.relation_id;

-- name: hubs
-- Hubs.
SELECT hub_id, definition, index_level, path_count, left_out_count, graph_hash FROM hubs ORDER BY hub_id;

-- name: hub_paths
-- Paths of hubs with their texts.
SELECT hub_id, path_hash, length, text, textualiser, end_kind FROM hub_paths ORDER BY hub_id, path_hash;

-- name: hub_entities
-- Which entity a hub is.
SELECT hub_id, hub_id AS entity_id FROM hubs ORDER BY hub_id;

-- name: paths_of_hubs
-- Which path a hub has at which position.
SELECT hub_id, path_hash, ordinal FROM hub_paths ORDER BY hub_id, path_hash;

-- name: own_ids_of_graph
-- What paths call the entities of a knowledge graph; a value without an id has its entity's.
CREATE OR REPLACE TEMP VIEW own_ids AS SELECT entity_id, coalesce(node_id, entity_id) AS own_id FROM nodes;

-- name: own_ids_of_corpus
-- What paths call the entities of a corpus: keys.
CREATE OR REPLACE TEMP VIEW own_ids AS SELECT entity_id, key AS own_id FROM entities;

-- name: hub_path_entities
-- Which entities a path passes after its hub, and the relation that leads to each.
WITH paths AS (SELECT hub_id, path_hash, from_json(triples_json, '[["VARCHAR"]]') AS triples FROM hub_paths),
steps AS (
    SELECT hub_id, path_hash, unnest(triples) AS triple, generate_subscripts(triples, 1) - 1 AS ordinal FROM paths
)
SELECT s.hub_id, s.path_hash, s.ordinal, o.entity_id, s.triple[3] AS relation
FROM steps AS s JOIN own_ids AS o ON o.own_id = s.triple[4]
ORDER BY s.hub_id, s.path_hash, s.ordinal;

-- name: hub_candidates
-- Where search goes on from a hub, and the hash of the path that leads there.
SELECT hub_id, next_entity_id, kind, sha256(path_json) AS path_hash FROM hub_candidates
ORDER BY hub_id, next_entity_id;
