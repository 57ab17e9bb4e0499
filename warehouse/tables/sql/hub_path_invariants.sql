-- What must hold of the texts of hub paths; each query returns the number of rows that break it and one example.

-- name: hub_without_its_paths
-- Each hub has the paths that it counts, at the positions from 0.
SELECT count(*), min(hub_id)
FROM hubs AS h
LEFT JOIN (SELECT hub_id, count(*) AS paths, max(ordinal) AS last FROM hub_paths GROUP BY hub_id) AS p USING (hub_id)
WHERE coalesce(p.paths, 0) <> h.path_count OR coalesce(p.last, -1) <> h.path_count - 1;

-- name: path_of_no_hub
-- Every path leaves a hub and ends at an entity.
SELECT count(*), min(p.hub_id)
FROM hub_paths AS p
WHERE NOT EXISTS (FROM hubs AS h WHERE h.hub_id = p.hub_id)
    OR NOT EXISTS (FROM entities AS e WHERE e.entity_id = p.end_entity_id);

-- name: path_without_text
-- Every path has triples.
SELECT count(*), min(path_hash) FROM hub_paths WHERE length < 1 OR triples_json = '[]';
