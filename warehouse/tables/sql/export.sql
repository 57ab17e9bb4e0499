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
