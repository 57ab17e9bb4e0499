-- Statements that say what became of names.

-- name: decisions_on_names
-- Decisions about the names asked for, and the entity that each leads to.
SELECT a.alias_key, a.kind, a.scope, e.key, a.ambiguous, a.reason
FROM aliases AS a LEFT JOIN entities AS e USING (entity_id)
WHERE a.alias_key IN (SELECT unnest($keys)) AND a.kind IN ('er', 'manual', 'identity')
ORDER BY a.alias_key, a.kind, a.scope;

-- name: entities_by_keys
-- Name and type of the entities asked for.
SELECT key, name, type FROM entities WHERE key IN (SELECT unnest($keys));

-- name: nearest_names
-- The three names in the index that look most like each of the keys asked for; none that share nothing with it.
SELECT asked.key, e.name
FROM (SELECT unnest($keys) AS key) AS asked, entities AS e
WHERE e.is_named AND jaro_winkler_similarity(e.key, asked.key) > 0
QUALIFY row_number() OVER (
    PARTITION BY asked.key ORDER BY jaro_winkler_similarity(e.key, asked.key) DESC, e.key
) <= 3
ORDER BY asked.key, jaro_winkler_similarity(e.key, asked.key) DESC, e.key;

-- name: types_of_entities
-- All types that named entities have.
SELECT DISTINCT type FROM entities WHERE is_named AND type IS NOT NULL ORDER BY type;

-- name: mentioned_passages
-- Passages with the spans of their named entities; those that mention one of $keys first, the others by hash.
SELECT p.title, p.text, list(e.key ORDER BY e.key), list(m.spans_json ORDER BY e.key)
FROM passages AS p
JOIN mentions AS m ON m.unit_id = p.passage_id AND m.level = 'passage'
JOIN entities AS e USING (entity_id)
WHERE e.is_named
GROUP BY p.passage_id, p.title, p.text
ORDER BY bool_or(list_contains($keys, e.key)) DESC, md5(p.passage_id), p.passage_id
LIMIT $limit;

-- name: named_entities
-- Key, name and type of the named entities, most mentioned first.
SELECT key, name, type FROM entities WHERE is_named ORDER BY mention_count DESC, key;
