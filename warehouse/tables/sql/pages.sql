-- What pages show of an entity, a document, a hub and a version; lists are read a page at a time.

-- name: entity
-- An entity by its id.
SELECT * FROM entities WHERE entity_id = $id;

-- name: first_entities
-- Named entities that most passages mention.
SELECT entity_id, name, df FROM entities WHERE is_named ORDER BY df DESC, key LIMIT $limit;

-- name: entities_named
-- Named entities one of whose names contains a key, the shortest first.
SELECT entity_id, name, type, description FROM entities
WHERE is_named AND (contains(key, $key) OR entity_id IN (SELECT entity_id FROM aliases WHERE contains(alias_key, $key)))
ORDER BY length(name), name, key LIMIT $limit;

-- name: names_of_entity
-- Names that lead to an entity, and why.
SELECT alias_key AS name, kind, scope, reason FROM aliases
WHERE entity_id = $id AND NOT ambiguous ORDER BY kind, alias_key LIMIT $limit;

-- name: relations_of_entity
-- Relations of an entity in both directions, those stated most often first.
SELECT r.relation_id, r.source_id, s.name AS source, r.relation, r.target_id, t.name AS target, r.count
FROM relations AS r
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
WHERE r.source_id = $id OR r.target_id = $id
ORDER BY r.count DESC, r.relation_id LIMIT $limit OFFSET $offset;

-- name: passages_of_entity
-- Passages that mention an entity, those with most mentions first.
SELECT p.passage_id, p.document_id, p.title, p.text, m.tf
FROM mentions AS m JOIN passages AS p ON p.passage_id = m.unit_id
WHERE m.level = 'passage' AND m.entity_id = $id
ORDER BY m.tf DESC, p.passage_id LIMIT $limit OFFSET $offset;

-- name: document
-- A document by its id.
SELECT * FROM documents WHERE document_id = $id;

-- name: document_of_passage
-- Where a passage stands: its document, and its position there.
SELECT document_id, ordinal FROM passages WHERE passage_id = $id;

-- name: document_of_record
-- The document of a record, or of a passage, by the id that results show.
SELECT document_id FROM passages WHERE $id IN (record_id, passage_id) LIMIT 1;

-- name: record_of_document
-- The first record of a document, and the file that it came from.
SELECT record_id, source FROM records WHERE document_id = $id ORDER BY record_id LIMIT 1;

-- name: passages_of_document
-- Passages of a document, in order.
SELECT passage_id, ordinal, title, text FROM passages
WHERE document_id = $id ORDER BY ordinal, passage_id LIMIT $limit OFFSET $offset;

-- name: entities_of_passages
-- Named entities that passages mention.
SELECT m.unit_id AS passage_id, e.entity_id, e.name
FROM mentions AS m JOIN entities AS e USING (entity_id)
WHERE m.level = 'passage' AND e.is_named AND m.unit_id IN (SELECT unnest($ids))
ORDER BY m.unit_id, e.df, e.name LIMIT $limit;

-- name: quarantine
-- Records that could not be used.
SELECT source, line, reason, excerpt FROM quarantine ORDER BY source, line LIMIT $limit OFFSET $offset;

-- name: documents_of_files
-- Documents that came from these files.
SELECT source, document_id FROM documents WHERE source IN (SELECT unnest($files::VARCHAR[])) ORDER BY source, title;

-- name: documents_of_others
-- Documents that came from other files than these, in the order of their titles.
SELECT document_id, title, source, passage_count FROM documents
WHERE source NOT IN (SELECT unnest($files::VARCHAR[])) ORDER BY title, document_id LIMIT $limit OFFSET $offset;

-- name: refused_files
-- Why these files, or rows in them, could not be used.
SELECT source, min(reason) AS reason, count(*) AS refused FROM quarantine
WHERE source IN (SELECT unnest($files::VARCHAR[])) GROUP BY source ORDER BY source;

-- name: ledger
-- What models were asked, by step and outcome, and how much of their replies is used; a cost is NULL if that of one
-- unit is unknown.
SELECT step, model, state, count(*) AS units, sum(attempts)::BIGINT AS calls, sum(prompt_tokens)::BIGINT AS prompt_tokens,
    sum(completion_tokens)::BIGINT AS completion_tokens,
    CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd, any_value(error) AS example,
    coalesce(sum(kept), 0)::BIGINT AS kept, coalesce(sum(dropped), 0)::BIGINT AS dropped
FROM ( -- tables of versions up to 0.1 have no column kept or dropped
    SELECT * FROM extraction_ledger UNION ALL BY NAME SELECT 0 AS kept, 0 AS dropped WHERE false
) GROUP BY step, model, state ORDER BY step, model, state LIMIT $limit;

-- name: hub_coverage
-- Which part of the graph is in some path of a hub.
SELECT what, part, covered, uncovered, share FROM hub_coverage
ORDER BY what, covered + uncovered DESC, part LIMIT $limit;

-- name: hubs
-- Hubs, those with most paths first.
SELECT h.hub_id, e.name, e.type, h.definition, h.index_level, h.path_count
FROM hubs AS h JOIN entities AS e ON e.entity_id = h.hub_id
ORDER BY h.path_count DESC, h.hub_id LIMIT $limit OFFSET $offset;

-- name: hub
-- A hub by its id.
SELECT h.*, e.name, e.type FROM hubs AS h JOIN entities AS e ON e.entity_id = h.hub_id WHERE h.hub_id = $id;

-- name: paths_of_hub
-- Paths of a hub with their texts, in order.
SELECT p.ordinal, p.length, p.text, p.textualiser, p.end_kind, p.end_entity_id, e.name AS end_name
FROM hub_paths AS p LEFT JOIN entities AS e ON e.entity_id = p.end_entity_id
WHERE p.hub_id = $id ORDER BY p.ordinal LIMIT $limit OFFSET $offset;

-- name: entities_of_graph
-- The named entities that most passages mention, to begin a graph with.
SELECT entity_id, name, type, df FROM entities WHERE is_named ORDER BY df DESC, entity_id LIMIT $limit;

-- name: entities_of_ids
-- Entities by id.
SELECT entity_id, name, type, df FROM entities WHERE list_contains($ids, entity_id) ORDER BY entity_id;

-- name: neighbours_of_entity
-- Ids of the entities that most was stated of together with one.
SELECT CASE WHEN source_id = $id THEN target_id ELSE source_id END AS entity_id, sum(count) AS stated
FROM relations WHERE (source_id = $id) <> (target_id = $id)
GROUP BY ALL ORDER BY stated DESC, entity_id LIMIT $limit;

-- name: relations_among
-- Relations between entities of a list, with their labels.
SELECT source_id, target_id, string_agg(DISTINCT relation, ', ' ORDER BY relation) AS labels, sum(count)::BIGINT AS stated
FROM relations WHERE source_id <> target_id AND list_contains($ids, source_id) AND list_contains($ids, target_id)
GROUP BY ALL ORDER BY stated DESC, source_id, target_id LIMIT $limit;
