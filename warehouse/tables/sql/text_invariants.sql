-- Laws of entities and relations that texts state (those of a knowledge graph need not be mentioned); publishing checks them.
-- Each statement returns the offending rows' count and one example.

-- name: relation_to_itself
-- Edges from an entity to itself.
SELECT count(*), min(relation_id) FROM relations WHERE source_id = target_id;

-- name: relation_without_source
-- Edges that no passage states.
SELECT count(*), min(r.relation_id)
FROM (FROM relations WHERE is_touched(relation_id)) AS r ANTI JOIN relation_sources AS s USING (relation_id);

-- name: entity_without_mention
-- Named entities that nothing mentions.
SELECT count(*), min(e.entity_id)
FROM (FROM entities WHERE is_touched(entity_id)) AS e ANTI JOIN mentions AS m USING (entity_id) WHERE NOT e.is_literal;

-- name: triple_without_passage
-- Triples that come from nowhere.
SELECT count(*), min(t.proposition_id)
FROM (FROM triples WHERE is_touched(proposition_id)) AS t ANTI JOIN triple_passages AS s USING (proposition_id);

-- name: triple_entity_without_entity
-- Triples with unknown ends.
SELECT count(*), min(entity_id) FROM triple_entities WHERE is_no_entity(entity_id);
