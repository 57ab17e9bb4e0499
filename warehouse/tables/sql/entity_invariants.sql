-- Laws of entities, relations and propositions, whatever they come from; publishing checks them.
-- Each statement returns the offending rows' count and one example.

-- name: mention_without_passage
-- Mentions of passages that do not exist.
SELECT count(*), min(unit_id)
FROM (FROM mentions WHERE level = 'passage' AND is_touched(unit_id)) AS m
ANTI JOIN passages AS p ON p.passage_id = m.unit_id;

-- name: mention_without_entity
-- Mentions of entities that do not exist.
SELECT count(*), min(entity_id) FROM mentions WHERE is_no_entity(entity_id);

-- name: relation_without_entity
-- Edges whose ends do not exist.
SELECT count(*), min(relation_id)
FROM (
    SELECT relation_id FROM relations WHERE is_no_entity(source_id)
    UNION ALL
    SELECT relation_id FROM relations WHERE is_no_entity(target_id)
);

-- name: proposition_without_passage
-- Propositions that come from nowhere.
SELECT count(*), min(p.proposition_id)
FROM (FROM propositions WHERE is_touched(proposition_id)) AS p
ANTI JOIN proposition_passages AS s USING (proposition_id);

-- name: proposition_entity_without_entity
-- Propositions that name unknown entities.
SELECT count(*), min(entity_id) FROM proposition_entities WHERE is_no_entity(entity_id);
