-- Statements that compare entities and relations of two versions: `before` is attached, the other is in use.

-- name: changed_entities
-- What became of entities: one that is gone is merged if its key is an alias of another now, and split the other way.
CREATE OR REPLACE TEMP TABLE changed_entities AS
WITH gone AS (
    SELECT entity_id, key, name FROM before.entities ANTI JOIN entities USING (entity_id)
), fresh AS (
    SELECT entity_id, key, name FROM entities ANTI JOIN before.entities USING (entity_id)
), merged AS (
    SELECT g.entity_id, min(e.name) AS other
    FROM gone AS g
    JOIN aliases AS a ON a.alias_key = g.key AND a.kind IN ('er', 'manual') AND NOT a.ambiguous
    JOIN entities AS e ON e.entity_id = a.entity_id
    GROUP BY g.entity_id
), split AS (
    SELECT f.entity_id, min(e.name) AS other
    FROM fresh AS f
    JOIN before.aliases AS a ON a.alias_key = f.key AND a.kind IN ('er', 'manual') AND NOT a.ambiguous
    JOIN before.entities AS e ON e.entity_id = a.entity_id
    GROUP BY f.entity_id
)
SELECT if(m.entity_id IS NULL, 'removed', 'merged') AS kind, g.name, m.other, g.entity_id
FROM gone AS g LEFT JOIN merged AS m USING (entity_id)
UNION ALL
SELECT if(s.entity_id IS NULL, 'added', 'split'), f.name, s.other, f.entity_id
FROM fresh AS f LEFT JOIN split AS s USING (entity_id);

-- name: changed_relations
-- Relations that came or went, by the names of their entities.
CREATE OR REPLACE TEMP TABLE changed_relations AS
SELECT 'added' AS kind, s.name AS source, r.relation, t.name AS target, r.relation_id
FROM relations AS r ANTI JOIN before.relations AS b ON b.relation_id = r.relation_id
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
UNION ALL
SELECT 'removed', s.name, r.relation, t.name, r.relation_id
FROM before.relations AS r ANTI JOIN relations AS b ON b.relation_id = r.relation_id
JOIN before.entities AS s ON s.entity_id = r.source_id
JOIN before.entities AS t ON t.entity_id = r.target_id;

-- name: first_records
-- The first records of each kind.
SELECT kind, record_id, from_id, document_id, source FROM changed_records
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY record_id) <= $limit ORDER BY kind, record_id;

-- name: first_entities
-- The first entities of each kind.
SELECT kind, name, other FROM changed_entities
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY name, entity_id) <= $limit ORDER BY kind, name, entity_id;

-- name: first_relations
-- The first relations of each kind.
SELECT kind, source, relation, target FROM changed_relations
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY source, relation, target, relation_id) <= $limit
ORDER BY kind, source, relation, target, relation_id;

-- name: count_entities
-- How many entities came, went, were merged or split.
SELECT kind, count(*) FROM changed_entities GROUP BY kind;

-- name: count_relations
-- How many relations came or went.
SELECT kind, count(*) FROM changed_relations GROUP BY kind;
