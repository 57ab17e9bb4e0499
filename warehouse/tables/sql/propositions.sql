-- What the graph over propositions is made of. Propositions are numbered by ascending id, passages too, entities by
-- ascending key; only entities that some proposition names are numbered.

-- name: proposition_names
-- Names of the entities that propositions name, for the vectors that synonyms are found by.
SELECT entity_id AS id, name AS first, '' AS second, key AS rank
FROM entities SEMI JOIN proposition_entities USING (entity_id);

-- name: proposition_texts
-- Texts of all propositions, for their vectors.
SELECT proposition_id AS id, text AS first, '' AS second, proposition_id AS rank FROM propositions;

-- name: named_entities
-- Ids and names of these entities in number order.
SELECT entity_id, name FROM entities SEMI JOIN proposition_entities USING (entity_id) ORDER BY key;

-- name: texts
-- Texts in number order.
SELECT text FROM propositions ORDER BY proposition_id;

-- name: entities_of_propositions
-- Numbers of every proposition and entity that it names, in stored order.
WITH p AS (SELECT proposition_id, row_number() OVER (ORDER BY proposition_id) - 1 AS n FROM propositions),
e AS (
    SELECT entity_id, row_number() OVER (ORDER BY key) - 1 AS n
    FROM entities SEMI JOIN proposition_entities USING (entity_id)
)
SELECT p.n AS proposition, e.n AS other
FROM proposition_entities AS x JOIN p USING (proposition_id) JOIN e USING (entity_id)
ORDER BY p.n, x.ordinal, e.n;

-- name: passages_of_propositions
-- Numbers of every proposition and passage that states it.
WITH p AS (SELECT proposition_id, row_number() OVER (ORDER BY proposition_id) - 1 AS n FROM propositions),
d AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages)
SELECT p.n AS proposition, d.n AS other
FROM proposition_passages AS x JOIN p USING (proposition_id) JOIN d USING (passage_id)
ORDER BY p.n, d.n;

-- name: count_things
-- Numbers of propositions and passages.
SELECT (SELECT count(*) FROM propositions), (SELECT count(*) FROM passages);
