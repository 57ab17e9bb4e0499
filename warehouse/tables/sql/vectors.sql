-- Things that have vectors. A kind's own statement gives id, first and second text, and rank (the order of the matrix);
-- the others run on such rows under the name `things` (warehouse/vectors/kinds.py puts them together).

-- name: passages
-- Title and text of every passage.
SELECT passage_id AS id, title AS first, text AS second, passage_id AS rank FROM passages;

-- name: entities
-- Name and description of every named entity.
SELECT entity_id AS id, name AS first, description AS second, key AS rank FROM entities WHERE is_named;

-- name: count_things
-- How many vectors there will be.
SELECT count(*) FROM things;

-- name: batch_of_things
-- Texts of one batch in order; only ranks and ids are sorted to find them.
SELECT id, first, second
FROM things
WHERE id IN (SELECT id FROM things ORDER BY rank LIMIT $limit OFFSET $offset)
ORDER BY rank;

-- name: published_things
-- All rows with their texts, content hash and model in order; rows whose vector is missing are left out.
SELECT t.id, t.first, t.second, e.content_hash, e.model
FROM things AS t JOIN embeddings AS e ON e.owner_kind = $kind AND e.owner_id = t.id
ORDER BY t.rank;
