-- Statements that turn raw extraction parts into entities, mentions, relations and propositions.
-- Mentions first have the keys that extraction gave them; names and types are then taken twice: once for resolution to
-- judge, once more when its key map has given merged names their entity's key. Tables are filled from keyed_mentions and
-- phrases and from views (placed_mentions, stated_relations, derived_relations, stated, naming), which statements of the
-- same names define: in a full run those of resolve_all.sql, in an incremental run those of resolve_update.sql.

-- name: key_map
-- Keys of names that take part in a merge, the entity's own among them, and the entity's key.
CREATE OR REPLACE TEMP TABLE key_map (key VARCHAR, canonical VARCHAR);

-- name: written_descriptions
-- Descriptions that a model wrote when it merged names.
CREATE OR REPLACE TEMP TABLE written_descriptions (key VARCHAR, description VARCHAR);

-- name: decisions
-- What resolution decided, by keys.
CREATE OR REPLACE TEMP TABLE decisions (
    alias_key VARCHAR, kind VARCHAR, scope VARCHAR, canonical VARCHAR, ambiguous BOOLEAN, reason VARCHAR
);

-- name: edited_keys
-- What people decided about entities, by the keys that these have after merging.
CREATE OR REPLACE TEMP TABLE edited_keys (
    key VARCHAR, name VARCHAR, is_retyped BOOLEAN, type VARCHAR, is_deleted BOOLEAN
);

-- name: own_mentions
-- All raw mentions while nothing is decided: `key` is the name's.
CREATE OR REPLACE TEMP VIEW own_mentions AS SELECT *, key AS own_key FROM all_mentions;

-- name: names_of_keys
-- Most frequent spelling of each key; ties to the smaller. Merged names do not rename their entity.
CREATE OR REPLACE TEMP TABLE names_of_keys AS
SELECT key, arg_max(surface, (uses, inverse)) AS name
FROM (
    SELECT key, surface, sum(tf) AS uses, -row_number() OVER (ORDER BY surface) AS inverse
    FROM resolved_mentions WHERE key = own_key GROUP BY key, surface
)
GROUP BY key;

-- name: types_of_keys
-- What pages, models, files and people state comes first (confidence .9 and more, schemas/types.py: DEFINED): the type with
-- the largest summed confidence, in whole thousandths, because sums of floats would depend on their order; ties in the
-- order of the paper's list, then by name; '' stands for none of the five, which is stated, too. Else votes decide: the
-- class with most of them, if it has .6 of all; another name than the five, or less, is no type (decision 0039). Names of
-- which nothing is known, but that a text holds them, have neither row nor type.
CREATE OR REPLACE TEMP TABLE types_of_keys AS
WITH stated AS (
    SELECT
        key,
        nullif(arg_max(type, (weight, preference, inverse)), '') AS type,
        round(max(weight) / sum(weight), 6) AS confidence,
        arg_max(surest, (weight, preference, inverse)) AS surest
    FROM (
        SELECT
            key,
            coalesce(type, '') AS type,
            sum(tf * round(1000 * type_confidence)::BIGINT) AS weight,
            max(type_confidence) AS surest,
            -coalesce(
                list_position(['PERSON', 'ORGANIZATION', 'LOCATION', 'EVENT', 'WORK', 'DATE', 'NUMBER'], type), 8
            ) AS preference,
            -row_number() OVER (PARTITION BY key ORDER BY type) AS inverse
        FROM resolved_mentions WHERE type_confidence >= .9 GROUP BY key, type
    )
    GROUP BY key
),
judged AS (
    SELECT key, list_max(votes[:6]) AS most, list_position(votes[:6], most) AS number, list_sum(votes) AS total
    FROM (
        SELECT
            key,
            [
                sum(votes[1])::BIGINT, sum(votes[2])::BIGINT, sum(votes[3])::BIGINT, sum(votes[4])::BIGINT,
                sum(votes[5])::BIGINT, sum(votes[6])::BIGINT, sum(votes[7])::BIGINT
            ] AS votes
        FROM resolved_mentions WHERE votes IS NOT NULL GROUP BY key
    )
),
named AS (SELECT DISTINCT key FROM resolved_mentions WHERE type_confidence IS NOT NULL)
SELECT
    n.key,
    CASE
        WHEN s.key IS NOT NULL THEN s.type
        WHEN 10 * j.most >= 6 * j.total
            THEN ['PERSON', 'ORGANIZATION', 'LOCATION', 'WORK', 'EVENT', NULL][j.number]
    END AS type,
    CASE WHEN s.key IS NOT NULL THEN s.confidence ELSE round(j.most / j.total, 6) END AS confidence,
    coalesce(s.surest, 0) AS surest
FROM named AS n LEFT JOIN stated AS s USING (key) LEFT JOIN judged AS j USING (key);

-- name: descriptions_of_keys
-- Up to two sentences per key, its own page's first, cut to 240 characters.
CREATE OR REPLACE TEMP TABLE descriptions_of_keys AS
SELECT key, left(string_agg(description, ' ' ORDER BY is_title DESC, passage_id), 240) AS description
FROM (
    SELECT key, description, bool_or(is_title) AS is_title, min(passage_id) AS passage_id
    FROM resolved_mentions
    WHERE description <> ''
    GROUP BY key, description
    QUALIFY row_number() OVER (PARTITION BY key ORDER BY bool_or(is_title) DESC, min(passage_id), description) <= 2
)
GROUP BY key;

-- name: names_to_resolve
-- Names with their type and number of mentions; dates and numbers take no part. '' is the type of names that rules found
-- and nothing types, which are one among themselves (`Hermes`, `The Hermes`); names of which nothing is known have NULL. A
-- type that nothing states (schemas/types.py: DEFINED) is a guess. What is no name (drop_what_is_no_name) takes no part.
SELECT
    m.key,
    any_value(n.name),
    any_value(CASE WHEN t.key IS NOT NULL THEN coalesce(t.type, '') END),
    sum(m.tf)::BIGINT,
    coalesce(any_value(t.surest), 0) < .9 AS is_guess
FROM resolved_mentions AS m
JOIN names_of_keys AS n ON n.key = m.key
LEFT JOIN types_of_keys AS t ON t.key = m.key
WHERE m.key NOT LIKE 'date:%' AND m.key NOT LIKE 'number:%'
GROUP BY m.key
HAVING bool_or(m.is_title) OR bool_or(m.extractor IN ('model', 'import'))
    OR coalesce(10 * sum(m.votes[7]) < 9 * sum(list_sum(m.votes)), true)
ORDER BY m.key;

-- name: sentences_of_keys
-- Up to five distinct sentences about each of the names asked for, its own page's first.
SELECT key, list(description ORDER BY is_title DESC, passage_id, description)
FROM (
    SELECT key, description, bool_or(is_title) AS is_title, min(passage_id) AS passage_id
    FROM resolved_mentions
    WHERE description <> '' AND key IN (SELECT unnest($keys))
    GROUP BY key, description
    QUALIFY row_number() OVER (PARTITION BY key ORDER BY bool_or(is_title) DESC, min(passage_id), description) <= 5
)
GROUP BY key;

-- name: drop_deleted_mentions
-- Nothing mentions an entity that people deleted.
DELETE FROM keyed_mentions WHERE key IN (SELECT key FROM edited_keys WHERE is_deleted);

-- name: drop_what_is_no_name
-- Nothing mentions what is no name by nine tenths of the votes of its mentions (decision 0039), unless a title, a model, a
-- file or people say that it is one. As in names_to_resolve.
DELETE FROM keyed_mentions WHERE key IN (
    SELECT key FROM keyed_mentions
    GROUP BY key
    HAVING NOT bool_or(is_title) AND NOT bool_or(extractor IN ('model', 'import'))
        AND 10 * sum(votes[7]) >= 9 * sum(list_sum(votes))
) AND key NOT IN (SELECT key FROM edited_keys);

-- name: rename_keys
-- Names that people gave.
UPDATE names_of_keys SET name = e.name
FROM edited_keys AS e WHERE e.key = names_of_keys.key AND e.name IS NOT NULL;

-- name: drop_retyped_keys
-- Types that people overruled.
DELETE FROM types_of_keys WHERE key IN (SELECT key FROM edited_keys WHERE is_retyped);

-- name: retype_keys
-- Types that people gave.
INSERT INTO types_of_keys SELECT key, type, 1.0, 1.0 FROM edited_keys WHERE is_retyped AND type IS NOT NULL;

-- name: counts_of_keys
-- Passages, mentions and documents of each key. A separate statement: together with the descriptions of entities three
-- million passages took more than a gigabyte.
CREATE OR REPLACE TEMP TABLE counts_of_keys AS
SELECT key, count(DISTINCT passage_id) AS passages, sum(tf) AS mentions, count(DISTINCT document_id) AS documents
FROM resolved_mentions JOIN passages USING (passage_id)
GROUP BY key;

-- name: entities
-- One entity per key.
SELECT
    left(sha256('entity' || chr(10) || m.key), 32),
    m.key,
    n.name,
    lower(nfc_normalize(trim(regexp_replace(n.name, '\s+', ' ', 'g')))),
    t.type,
    t.confidence,
    m.key NOT LIKE 'date:%' AND m.key NOT LIKE 'number:%',
    f.key IS NOT NULL,
    false,
    m.key LIKE 'date:%',
    coalesce(w.description, d.description, ''),
    sha256(coalesce(w.description, d.description, '')),
    m.passages,
    m.mentions,
    m.documents
FROM counts_of_keys AS m
JOIN names_of_keys AS n ON n.key = m.key
LEFT JOIN types_of_keys AS t ON t.key = m.key
LEFT JOIN descriptions_of_keys AS d ON d.key = m.key
LEFT JOIN written_descriptions AS w ON w.key = m.key
LEFT JOIN phrases AS f ON f.key = m.key;

-- name: mentions
-- Which passage mentions which entity. Merged names of one passage are one row: counts add up, spans are united in
-- order, the spelling is the title's or else the first one in the text.
SELECT 'passage', m.passage_id, e.entity_id, m.extractor, m.surface, m.tf, m.is_title, m.spans_json
FROM placed_mentions AS m JOIN entities AS e USING (key)
WHERE m.key NOT IN (SELECT canonical FROM key_map)
UNION ALL
SELECT
    'passage',
    m.passage_id,
    any_value(e.entity_id),
    m.extractor,
    arg_min(m.surface, (NOT m.is_title, coalesce((m.spans_json::JSON ->> '$[0][0]')::BIGINT, -1), m.own_key)),
    sum(m.tf)::BIGINT,
    bool_or(m.is_title),
    replace(list_sort(list_distinct(flatten(list(m.spans_json::JSON::BIGINT[][]))))::VARCHAR, ' ', '')
FROM placed_mentions AS m JOIN entities AS e USING (key)
WHERE m.key IN (SELECT canonical FROM key_map)
GROUP BY m.passage_id, m.key, m.extractor;

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
FROM stated_relations AS r
LEFT JOIN key_map AS x ON x.key = r.source_key
LEFT JOIN key_map AS y ON y.key = r.target_key
JOIN entities AS s ON s.key = coalesce(x.canonical, r.source_key)
JOIN entities AS t ON t.key = coalesce(y.canonical, r.target_key)
WHERE s.entity_id <> t.entity_id;

-- name: relations
-- One edge per source, label and target.
SELECT
    relation_id,
    any_value(source_id),
    any_value(target_id),
    min_by(relation, (passage_id, ordinal)),
    any_value(norm_relation),
    count(*),
    NULL,
    min_by(extractor, (passage_id, ordinal))
FROM derived_relations GROUP BY relation_id;

-- name: relation_sources
-- Where each relation is stated.
SELECT DISTINCT relation_id, passage_id FROM derived_relations;

-- name: distinct_propositions
-- One proposition per normalised text: the rows of the table of propositions, or of triples.
SELECT proposition_id, min_by(text, (passage_id, ordinal)), sha256(min_by(text, (passage_id, ordinal))),
    min_by(extractor, (passage_id, ordinal))
FROM stated GROUP BY proposition_id;

-- name: passages_of_propositions
-- Where each proposition comes from.
SELECT proposition_id, passage_id, min(ordinal)
FROM stated GROUP BY proposition_id, passage_id;

-- name: entities_of_propositions
-- The entities a proposition names: the union over its passages, in order of first appearance.
SELECT proposition_id, entity_id, row_number() OVER (PARTITION BY proposition_id ORDER BY position, entity_id) - 1
FROM (
    SELECT k.proposition_id, e.entity_id, min((k.passage_id, k.ordinal, k.position)) AS position
    FROM (
        SELECT proposition_id, passage_id, ordinal, unnest(keys) AS key, unnest(range(len(keys))) AS position
        FROM naming
    ) AS k
    LEFT JOIN key_map AS c ON c.key = k.key
    JOIN entities AS e ON e.key = coalesce(c.canonical, k.key)
    GROUP BY k.proposition_id, e.entity_id
);

-- name: title_aliases
-- Other forms of titles, and the keys of the titles that they may mean.
CREATE OR REPLACE TEMP TABLE title_aliases (alias_key VARCHAR, canonical VARCHAR);

-- name: aliases_of_titles
-- Title keys that lead to exactly one document's title entity, and those that are ambiguous.
SELECT
    alias_key,
    'title',
    '',
    CASE WHEN count(*) = 1 THEN min(e.entity_id) END,
    count(*) > 1,
    CASE WHEN count(*) = 1 THEN 'title without its parenthesis' ELSE 'several titles share it' END
FROM (
    SELECT DISTINCT a.alias_key, coalesce(k.canonical, a.canonical) AS entity_key
    FROM title_aliases AS a LEFT JOIN key_map AS k ON k.key = a.canonical
) LEFT JOIN entities AS e ON e.key = entity_key
GROUP BY alias_key;

-- name: decided_aliases
-- Every decision of resolution: merged names lead to their entity, others to themselves or nowhere.
SELECT d.alias_key, d.kind, d.scope, e.entity_id, d.ambiguous, d.reason
FROM decisions AS d LEFT JOIN entities AS e ON e.key = d.canonical;

-- name: count_entities
-- Sizes of what was resolved.
SELECT
    (SELECT count(*) FROM entities),
    (SELECT count(*) FROM mentions),
    (SELECT count(*) FROM relations),
    (SELECT count(*) FROM propositions),
    (SELECT count(*) FROM triples),
    (SELECT count(*) FROM key_map WHERE key <> canonical);

-- name: content_of_tables
-- Sizes and checksums of everything that a model's decisions can change.
SELECT
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(e::VARCHAR))), '') FROM entities AS e),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(m::VARCHAR))), '') FROM mentions AS m),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(r::VARCHAR))), '') FROM relations AS r),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(p::VARCHAR))), '') FROM proposition_entities AS p),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM triple_entities AS t),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(a::VARCHAR))), '') FROM aliases AS a);
