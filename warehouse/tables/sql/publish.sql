-- Laws that publishing checks: each statement returns the offending rows' count and one example.

-- name: mention_without_passage
-- Mentions of passages that do not exist.
SELECT count(*), min(unit_id) FROM mentions AS m
WHERE m.level = 'passage' AND NOT EXISTS (FROM passages AS p WHERE p.passage_id = m.unit_id);

-- name: mention_without_entity
-- Mentions of entities that do not exist.
SELECT count(*), min(m.entity_id) FROM mentions AS m ANTI JOIN entities AS e USING (entity_id);

-- name: passage_without_document
-- Passages of documents that do not exist.
SELECT count(*), min(p.passage_id) FROM passages AS p ANTI JOIN documents AS d USING (document_id);

-- name: relation_to_itself
-- Edges from an entity to itself.
SELECT count(*), min(relation_id) FROM relations WHERE source_id = target_id;

-- name: relation_without_entity
-- Edges whose ends do not exist.
SELECT count(*), min(relation_id) FROM relations AS r
WHERE NOT EXISTS (FROM entities AS e WHERE e.entity_id = r.source_id)
   OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = r.target_id);

-- name: relation_without_source
-- Edges that no passage states.
SELECT count(*), min(r.relation_id) FROM relations AS r ANTI JOIN relation_sources AS s USING (relation_id);

-- name: proposition_without_passage
-- Propositions that come from nowhere.
SELECT count(*), min(p.proposition_id) FROM propositions AS p ANTI JOIN proposition_passages AS s USING (proposition_id);

-- name: proposition_entity_without_entity
-- Propositions that name unknown entities.
SELECT count(*), min(x.entity_id) FROM proposition_entities AS x ANTI JOIN entities AS e USING (entity_id);

-- name: entity_without_mention
-- Named entities that nothing mentions.
SELECT count(*), min(e.entity_id) FROM entities AS e ANTI JOIN mentions AS m USING (entity_id) WHERE NOT e.is_literal;
