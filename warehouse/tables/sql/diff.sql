-- Statements that compare entities and relations of two versions: `before` is attached, the other is in use.

-- name: changed_entities
-- Changes of entities: a removed one is merged if its key is an alias of another now, and split the other way.
-- `other` is the entity merged into or split from, the name before, or the types before and after; `other_id` its id.
CREATE OR REPLACE TEMP TABLE changed_entities AS
WITH gone AS (
    SELECT entity_id, key, name FROM before.entities ANTI JOIN entities USING (entity_id)
), fresh AS (
    SELECT entity_id, key, name FROM entities ANTI JOIN before.entities USING (entity_id)
), merged AS (
    SELECT g.entity_id, min(e.name) AS other, arg_min(e.entity_id, e.name) AS other_id
    FROM gone AS g
    JOIN aliases AS a ON a.alias_key = g.key AND a.kind IN ('er', 'manual') AND NOT a.ambiguous
    JOIN entities AS e ON e.entity_id = a.entity_id
    GROUP BY g.entity_id
), split AS (
    SELECT f.entity_id, min(e.name) AS other, arg_min(e.entity_id, e.name) AS other_id
    FROM fresh AS f
    JOIN before.aliases AS a ON a.alias_key = f.key AND a.kind IN ('er', 'manual') AND NOT a.ambiguous
    JOIN before.entities AS e ON e.entity_id = a.entity_id
    GROUP BY f.entity_id
)
SELECT if(m.entity_id IS NULL, 'removed', 'merged') AS kind, g.name, m.other, g.entity_id, m.other_id
FROM gone AS g LEFT JOIN merged AS m USING (entity_id)
UNION ALL
SELECT if(s.entity_id IS NULL, 'added', 'split'), f.name, s.other, f.entity_id, s.other_id
FROM fresh AS f LEFT JOIN split AS s USING (entity_id)
UNION ALL
SELECT 'renamed', e.name, b.name, e.entity_id, NULL
FROM entities AS e JOIN before.entities AS b USING (entity_id) WHERE e.name <> b.name
UNION ALL
SELECT 'retyped', e.name, coalesce(b.type, 'no type') || ' -> ' || coalesce(e.type, 'no type'), e.entity_id, NULL
FROM entities AS e JOIN before.entities AS b USING (entity_id) WHERE e.type IS DISTINCT FROM b.type;

-- name: changed_relations
-- Added and removed relations, by the names of their entities; a merge or split of an entity changes none of its own.
CREATE OR REPLACE TEMP TABLE changed_relations AS
WITH merged AS (
    SELECT entity_id, other_id FROM changed_entities WHERE kind = 'merged'
), split AS (
    SELECT s.entity_id, coalesce(m.other_id, s.other_id) AS other_id
    FROM changed_entities AS s LEFT JOIN merged AS m ON m.entity_id = s.other_id WHERE s.kind = 'split'
), earlier AS (
    SELECT r.*, coalesce(s.other_id, r.source_id) AS source_key, coalesce(t.other_id, r.target_id) AS target_key
    FROM before.relations AS r
    LEFT JOIN merged AS s ON s.entity_id = r.source_id
    LEFT JOIN merged AS t ON t.entity_id = r.target_id
), later AS (
    SELECT r.*, coalesce(s.other_id, r.source_id) AS source_key, coalesce(t.other_id, r.target_id) AS target_key
    FROM relations AS r
    LEFT JOIN split AS s ON s.entity_id = r.source_id
    LEFT JOIN split AS t ON t.entity_id = r.target_id
)
SELECT 'added' AS kind, s.name AS source, r.relation, t.name AS target, r.relation_id
FROM later AS r ANTI JOIN earlier AS b USING (source_key, relation, target_key)
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
UNION ALL
SELECT 'removed', s.name, r.relation, t.name, r.relation_id
FROM earlier AS r ANTI JOIN later AS b USING (source_key, relation, target_key)
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
-- Numbers of changed entities by kind.
SELECT kind, count(*) FROM changed_entities GROUP BY kind;

-- name: count_relations
-- How many relations came or went.
SELECT kind, count(*) FROM changed_relations GROUP BY kind;
