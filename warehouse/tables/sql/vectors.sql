-- Things that have vectors. A kind's own statement gives id, first and second text, and rank (the order of the matrix);
-- those about `things` run on such rows under that name (warehouse/vectors/kinds.py puts them together).

-- name: passages
-- Title and text of every passage.
SELECT passage_id AS id, title AS first, text AS second, passage_id AS rank FROM passages;

-- name: entities
-- Name and description of every named entity.
SELECT entity_id AS id, name AS first, description AS second, key AS rank FROM entities WHERE is_named;

-- name: things_in_order
-- Ids and texts of all things, in the order of the matrix.
SELECT id, first, second FROM things ORDER BY rank;

-- name: passages_since
-- Ids of all passages in that order, with the key of the vector of those that the version before has with this title and
-- text; title and text of the others.
SELECT
    p.passage_id AS id,
    CASE WHEN e.content_hash IS NULL THEN p.title END AS first,
    CASE WHEN e.content_hash IS NULL THEN p.text END AS second,
    e.content_hash AS key
FROM passages AS p
LEFT JOIN before.passages AS b ON b.passage_id = p.passage_id AND b.content_hash = p.content_hash
LEFT JOIN before.embeddings AS e ON e.owner_kind = 'passage' AND e.owner_id = b.passage_id AND e.model = $model
ORDER BY p.passage_id;

-- name: fill_embeddings
-- Which things of a kind have a vector, and its key in the cache.
INSERT INTO embeddings
SELECT $kind, id, $model, $dimension, lower(hex(content_hash)) FROM read_parquet($things) ORDER BY id;

-- name: published_things
-- All rows with their content hash and model in order; rows whose vector is missing are left out.
SELECT t.id, e.content_hash, e.model
FROM things AS t JOIN embeddings AS e ON e.owner_kind = $kind AND e.owner_id = t.id
ORDER BY t.rank;

-- name: texts_of_things
-- Texts of some things, in the order of the matrix.
SELECT t.first, t.second FROM things AS t SEMI JOIN chosen_things AS c ON c.id = t.id ORDER BY t.rank;
