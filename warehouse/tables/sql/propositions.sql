-- What a graph over propositions is made of: the rows of the tables of `$noun` (proposition or triple). They are numbered by ascending id,
-- passages too, entities by ascending key; only entities that some proposition of the graph names are numbered.

-- name: proposition_names
-- Names of these entities, for the vectors that synonyms are found by.
SELECT entity_id AS id, name AS first, '' AS second, key AS rank
FROM entities SEMI JOIN query_table($noun || '_entities') USING (entity_id);

-- name: proposition_texts
-- Texts of the propositions, for their vectors.
SELECT proposition_id AS id, text AS first, '' AS second, proposition_id AS rank FROM query_table($noun || 's');

-- name: number_propositions
-- Numbers and texts of the propositions.
CREATE OR REPLACE TEMP TABLE numbered_propositions AS
SELECT proposition_id, text, row_number() OVER (ORDER BY proposition_id) - 1 AS n
FROM query_table($noun || 's');

-- name: number_entities
-- Numbers and names of the entities.
CREATE OR REPLACE TEMP TABLE numbered_entities AS
SELECT entity_id, name, row_number() OVER (ORDER BY key) - 1 AS n
FROM entities SEMI JOIN query_table($noun || '_entities') USING (entity_id);

-- name: named_entities
-- Ids and names in number order.
SELECT entity_id, name FROM numbered_entities ORDER BY n;

-- name: texts
-- Texts in number order.
SELECT text FROM numbered_propositions ORDER BY n;

-- name: entities_of_propositions
-- Numbers of every proposition and entity that it names, in stored order.
SELECT p.n AS proposition, e.n AS other
FROM query_table($noun || '_entities') AS x
JOIN numbered_propositions AS p USING (proposition_id) JOIN numbered_entities AS e USING (entity_id)
ORDER BY p.n, x.ordinal, e.n;

-- name: passages_of_propositions
-- Numbers of every proposition and passage that states it.
WITH d AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages)
SELECT p.n AS proposition, d.n AS other
FROM query_table($noun || '_passages') AS x
JOIN numbered_propositions AS p USING (proposition_id) JOIN d USING (passage_id)
ORDER BY p.n, d.n;

-- name: count_things
-- Numbers of propositions and passages.
SELECT (SELECT count(*) FROM numbered_propositions), (SELECT count(*) FROM passages);
