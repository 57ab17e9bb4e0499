-- Statements of readers on a published version.

-- name: passage_ids
-- Ids and titles in number order.
SELECT passage_id, title, record_id FROM passages ORDER BY passage_id;

-- name: entity_keys
-- Keys of named entities in number order.
SELECT key FROM entities WHERE is_named ORDER BY key;

-- name: passages_by_id
-- Texts of the passages asked for.
SELECT passage_id, title, text FROM passages WHERE passage_id IN (SELECT unnest($ids));

-- name: exact_names
-- Normalised names that are written otherwise than their key; several entities may share one.
SELECT norm_name, key FROM entities WHERE is_named AND norm_name <> key ORDER BY key;

-- name: relation_labels
-- Labels of relations in number order.
SELECT DISTINCT relation FROM relations ORDER BY relation;

-- name: distinct_titles
-- The gazetteer's titles.
SELECT DISTINCT title FROM passages ORDER BY title;

-- name: merged_names
-- Keys of names that are exactly one other entity's, by resolution or by hand; title aliases are not among them.
SELECT a.alias_key, any_value(e.key)
FROM aliases AS a JOIN entities AS e USING (entity_id)
WHERE a.kind IN ('er', 'manual') AND NOT a.ambiguous
GROUP BY a.alias_key
HAVING count(DISTINCT e.key) = 1 AND any_value(e.key) <> a.alias_key
ORDER BY a.alias_key;
