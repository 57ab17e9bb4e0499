-- What must hold of hubs, their candidates and their paths; each query returns the number of rows that break it and one
-- example.

-- name: hub_is_no_entity
-- Every hub is an entity.
SELECT count(*), min(hub_id) FROM hubs ANTI JOIN entities ON entity_id = hub_id;

-- name: literal_is_hub
-- No literal is a hub.
SELECT count(*), min(hub_id) FROM hubs JOIN entities ON entity_id = hub_id WHERE is_literal;

-- name: candidate_of_no_hub
-- Candidates belong to hubs that were found, and lead elsewhere.
SELECT count(*), min(c.hub_id)
FROM hub_candidates AS c
LEFT JOIN hubs AS h ON h.hub_id = c.hub_id AND h.index_level IS NOT NULL
WHERE h.hub_id IS NULL OR c.next_entity_id = c.hub_id;

-- name: candidate_is_no_entity
-- Every candidate is an entity.
SELECT count(*), min(next_entity_id) FROM hub_candidates ANTI JOIN entities ON entity_id = next_entity_id;

-- name: hub_candidate_is_no_hub
-- A candidate of the kind hub is one.
SELECT count(*), min(next_entity_id)
FROM hub_candidates ANTI JOIN hubs ON hubs.hub_id = next_entity_id WHERE kind = 'hub';
