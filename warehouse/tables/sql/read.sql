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

-- name: entities_by_key
-- Names and descriptions of the entities asked for.
SELECT key, name, description FROM entities WHERE key IN (SELECT unnest($keys));

-- name: distinct_titles
-- The gazetteer's titles.
SELECT DISTINCT title FROM passages ORDER BY title;
