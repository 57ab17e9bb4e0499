-- Laws of entities, relations and propositions, whatever they come from; publishing checks them.
-- Each statement returns the offending rows' count and one example.

-- name: mention_without_passage
-- Mentions of passages that do not exist.
SELECT count(*), min(unit_id) FROM mentions AS m
WHERE m.level = 'passage' AND NOT EXISTS (FROM passages AS p WHERE p.passage_id = m.unit_id);

-- name: mention_without_entity
-- Mentions of entities that do not exist.
SELECT count(*), min(m.entity_id) FROM mentions AS m ANTI JOIN entities AS e USING (entity_id);

-- name: relation_without_entity
-- Edges whose ends do not exist.
SELECT count(*), min(relation_id) FROM relations AS r
WHERE NOT EXISTS (FROM entities AS e WHERE e.entity_id = r.source_id)
   OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = r.target_id);

-- name: proposition_without_passage
-- Propositions that come from nowhere.
SELECT count(*), min(p.proposition_id) FROM propositions AS p ANTI JOIN proposition_passages AS s USING (proposition_id);

-- name: proposition_entity_without_entity
-- Propositions that name unknown entities.
SELECT count(*), min(x.entity_id) FROM proposition_entities AS x ANTI JOIN entities AS e USING (entity_id);
