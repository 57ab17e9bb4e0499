-- Statements that turn raw extraction parts into entities, mentions, relations and propositions.

-- name: names_of_keys
-- Most frequent spelling of each key; ties to the smaller.
CREATE OR REPLACE TEMP TABLE names_of_keys AS
SELECT key, arg_max(surface, (uses, inverse)) AS name
FROM (
    SELECT key, surface, sum(tf) AS uses, -row_number() OVER (ORDER BY surface) AS inverse
    FROM read_parquet($mentions) GROUP BY key, surface
)
GROUP BY key;

-- name: types_of_keys
-- Type with the largest summed confidence (in whole thousandths: sums of floats would depend on their order);
-- ties in the order of the paper's list.
CREATE OR REPLACE TEMP TABLE types_of_keys AS
SELECT key, arg_max(type, (weight, preference)) AS type, round(max(weight) / sum(weight), 6) AS confidence
FROM (
    SELECT
        key,
        type,
        sum(tf * round(1000 * type_confidence)::BIGINT) AS weight,
        -list_position(['PERSON', 'ORGANIZATION', 'LOCATION', 'EVENT', 'WORK', 'DATE', 'NUMBER'], type) AS preference
    FROM read_parquet($mentions) WHERE type IS NOT NULL GROUP BY key, type
)
GROUP BY key;

-- name: descriptions_of_keys
-- Up to two sentences per key, its own page's first, cut to 240 characters.
CREATE OR REPLACE TEMP TABLE descriptions_of_keys AS
SELECT key, left(string_agg(description, ' ' ORDER BY is_title DESC, passage_id), 240) AS description
FROM (
    SELECT key, description, is_title, passage_id
    FROM read_parquet($mentions)
    WHERE description <> ''
    QUALIFY row_number() OVER (PARTITION BY key ORDER BY is_title DESC, passage_id) <= 2
)
GROUP BY key;

-- name: phrases
-- Keys that stand in a proposition.
CREATE OR REPLACE TEMP TABLE phrases AS
SELECT DISTINCT unnest(keys) AS key FROM read_parquet($propositions);

-- name: fill_entities
-- One entity per key.
INSERT INTO entities
SELECT
    left(sha256('entity' || chr(10) || m.key), 32),
    m.key,
    any_value(n.name),
    lower(nfc_normalize(trim(regexp_replace(any_value(n.name), '\s+', ' ', 'g')))),
    any_value(t.type),
    any_value(t.confidence),
    m.key NOT LIKE 'date:%' AND m.key NOT LIKE 'number:%',
    bool_or(f.key IS NOT NULL),
    false,
    m.key LIKE 'date:%',
    coalesce(any_value(d.description), ''),
    sha256(coalesce(any_value(d.description), '')),
    count(DISTINCT m.passage_id),
    sum(m.tf),
    count(DISTINCT p.document_id)
FROM read_parquet($mentions) AS m
JOIN passages AS p USING (passage_id)
JOIN names_of_keys AS n ON n.key = m.key
LEFT JOIN types_of_keys AS t ON t.key = m.key
LEFT JOIN descriptions_of_keys AS d ON d.key = m.key
LEFT JOIN phrases AS f ON f.key = m.key
GROUP BY m.key
ORDER BY 1;

-- name: fill_mentions
-- Which passage mentions which entity.
INSERT INTO mentions
SELECT 'passage', m.passage_id, e.entity_id, m.extractor, m.surface, m.tf, m.is_title, m.spans_json
FROM read_parquet($mentions) AS m JOIN entities AS e USING (key)
ORDER BY 2, 3, 4;

-- name: raw_relations
-- Relations with the ids of their ends; self loops and unknown ends are dropped.
CREATE OR REPLACE TEMP TABLE raw_relations AS
SELECT
    left(sha256('relation' || chr(10) || s.entity_id || chr(10) || r.norm_relation || chr(10) || t.entity_id), 32)
        AS relation_id,
    s.entity_id AS source_id,
    t.entity_id AS target_id,
    r.relation,
    r.norm_relation,
    r.extractor,
    r.passage_id,
    r.ordinal
FROM read_parquet($relations) AS r
JOIN entities AS s ON s.key = r.source_key
JOIN entities AS t ON t.key = r.target_key
WHERE s.entity_id <> t.entity_id;

-- name: fill_relations
-- One edge per source, label and target.
INSERT INTO relations
SELECT
    relation_id,
    any_value(source_id),
    any_value(target_id),
    min_by(relation, (passage_id, ordinal)),
    any_value(norm_relation),
    count(*),
    NULL,
    min_by(extractor, (passage_id, ordinal))
FROM raw_relations GROUP BY relation_id ORDER BY relation_id;

-- name: fill_relation_sources
-- Where each relation is stated.
INSERT INTO relation_sources
SELECT DISTINCT relation_id, passage_id FROM raw_relations ORDER BY relation_id, passage_id;

-- name: fill_propositions
-- One proposition per normalised text.
INSERT INTO propositions
SELECT proposition_id, min_by(text, (passage_id, ordinal)), sha256(min_by(text, (passage_id, ordinal))),
    min_by(extractor, (passage_id, ordinal))
FROM read_parquet($propositions) GROUP BY proposition_id ORDER BY proposition_id;

-- name: fill_proposition_passages
-- Where each proposition comes from.
INSERT INTO proposition_passages
SELECT proposition_id, passage_id, min(ordinal)
FROM read_parquet($propositions) GROUP BY proposition_id, passage_id ORDER BY proposition_id, passage_id;

-- name: fill_proposition_entities
-- The entities a proposition names: the union over its passages, in order of first appearance.
INSERT INTO proposition_entities
SELECT proposition_id, entity_id, row_number() OVER (PARTITION BY proposition_id ORDER BY place, entity_id) - 1
FROM (
    SELECT k.proposition_id, e.entity_id, min((k.passage_id, k.ordinal, k.place)) AS place
    FROM (
        SELECT proposition_id, passage_id, ordinal, unnest(keys) AS key, unnest(range(len(keys))) AS place
        FROM read_parquet($propositions)
    ) AS k JOIN entities AS e USING (key)
    GROUP BY k.proposition_id, e.entity_id
)
ORDER BY proposition_id, entity_id;

-- name: fill_title_aliases
-- Title keys that lead to exactly one document's title entity, and those that are ambiguous.
INSERT INTO aliases
SELECT
    alias_key,
    'title',
    '',
    CASE WHEN count(DISTINCT canonical) = 1 THEN min(e.entity_id) END,
    count(DISTINCT canonical) > 1,
    CASE WHEN count(DISTINCT canonical) = 1 THEN 'title without its parenthesis' ELSE 'several titles share it' END
FROM read_parquet($title_aliases) AS a LEFT JOIN entities AS e ON e.key = a.canonical
GROUP BY alias_key
ORDER BY alias_key;

-- name: count_entities
-- Sizes of what was resolved.
SELECT
    (SELECT count(*) FROM entities),
    (SELECT count(*) FROM mentions),
    (SELECT count(*) FROM relations),
    (SELECT count(*) FROM propositions);
