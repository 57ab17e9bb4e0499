-- Statements of resolution.identity: which passages mean which bearer of a name, and raw rows under the bearers' keys.

-- name: titles_of_passages
-- Passages of each title.
SELECT title, list(passage_id ORDER BY passage_id) FROM passages GROUP BY title ORDER BY title;

-- name: qualified_locations
-- Names that `, ` and another name follow, with the characters after these.
WITH spans AS (
    SELECT passage_id, key, surface, s[1] AS first, s[2] AS last
    FROM (
        SELECT passage_id, key, surface, unnest(spans_json::JSON::BIGINT[][]) AS s
        FROM all_mentions WHERE key NOT LIKE 'date:%' AND key NOT LIKE 'number:%'
    )
)
SELECT DISTINCT a.passage_id, a.key, a.surface, b.key, b.surface, substring(p.text, b.last + 1, 5)
FROM spans AS a
JOIN spans AS b ON b.passage_id = a.passage_id AND b.first = a.last + 2
JOIN passages AS p ON p.passage_id = a.passage_id
WHERE substring(p.text, a.last + 1, 2) = ', '
ORDER BY ALL;

-- name: types_by_passage
-- Types that a passage states of a name, or that its mentions there have by their votes (as types_of_keys in resolve.sql).
SELECT
    passage_id,
    key,
    surface,
    coalesce(
        CASE WHEN type_confidence >= .9 THEN type END,
        ['PERSON', 'ORGANIZATION', 'LOCATION', 'WORK', 'EVENT', NULL][list_position(votes[:6], list_max(votes[:6]))]
    ) AS type
FROM all_mentions
WHERE key NOT LIKE 'date:%' AND key NOT LIKE 'number:%' AND (
    (type_confidence >= .9 AND type IS NOT NULL)
    OR (coalesce(type_confidence, 0) < .9 AND 10 * list_max(votes[:5]) >= 6 * list_sum(votes))
)
ORDER BY ALL;

-- name: names_around
-- Names in the passages that mention some of these keys.
SELECT passage_id, list(DISTINCT key ORDER BY key) FROM all_mentions
WHERE key NOT LIKE 'date:%' AND key NOT LIKE 'number:%'
  AND passage_id IN (SELECT passage_id FROM all_mentions WHERE key IN (SELECT unnest($keys)))
GROUP BY passage_id ORDER BY passage_id;

-- name: passages_of_names
-- Number of passages that mention each name.
SELECT key, count(DISTINCT passage_id) FROM all_mentions
WHERE key NOT LIKE 'date:%' AND key NOT LIKE 'number:%' GROUP BY key ORDER BY key;

-- name: senses
-- Which name means which bearer in which passage.
CREATE OR REPLACE TEMP TABLE senses (passage_id VARCHAR, key VARCHAR, bearer VARCHAR, name VARCHAR);

-- name: mentions_of_bearers
-- Raw mentions under the bearers' keys; where a passage has a bearer under two names, one row.
CREATE OR REPLACE TEMP TABLE sensed_mentions AS
WITH told AS (
    SELECT m.* REPLACE (coalesce(s.bearer, m.key) AS key, coalesce(s.name, m.surface) AS surface)
    FROM all_mentions AS m LEFT JOIN senses AS s USING (passage_id, key)
),
shared AS (SELECT DISTINCT passage_id, bearer AS key FROM senses)
FROM told ANTI JOIN shared USING (passage_id, key)
UNION ALL BY NAME
SELECT
    passage_id,
    key,
    extractor,
    min(surface) AS surface,
    sum(tf)::BIGINT AS tf,
    bool_or(is_title) AS is_title,
    replace(list_sort(list_distinct(flatten(list(spans_json::JSON::BIGINT[][]))))::VARCHAR, ' ', '') AS spans_json,
    arg_max(type, (is_title, coalesce(type_confidence, -1), type)) AS type,
    max(type_confidence) AS type_confidence,
    CASE WHEN count(votes) > 0 THEN [
        sum(votes[1])::BIGINT, sum(votes[2])::BIGINT, sum(votes[3])::BIGINT, sum(votes[4])::BIGINT,
        sum(votes[5])::BIGINT, sum(votes[6])::BIGINT, sum(votes[7])::BIGINT
    ] END AS votes,
    arg_max(description, (is_title, description)) AS description
FROM told SEMI JOIN shared USING (passage_id, key)
GROUP BY passage_id, key, extractor;

-- name: relations_of_bearers
-- Raw relations under the bearers' keys.
CREATE OR REPLACE TEMP TABLE sensed_relations AS
SELECT r.* REPLACE (coalesce(s.bearer, r.source_key) AS source_key, coalesce(t.bearer, r.target_key) AS target_key)
FROM all_relations AS r
LEFT JOIN senses AS s ON s.passage_id = r.passage_id AND s.key = r.source_key
LEFT JOIN senses AS t ON t.passage_id = r.passage_id AND t.key = r.target_key;

-- name: bearers_by_passage
-- The bearers of each passage by the names that they have there.
CREATE OR REPLACE TEMP TABLE bearers_of_passages AS
SELECT passage_id, map_from_entries(list((key, bearer))) AS bearers FROM senses GROUP BY passage_id;

-- name: propositions_of_bearers
-- Raw propositions with the bearers' keys.
CREATE OR REPLACE TEMP TABLE sensed_propositions AS
SELECT p.* REPLACE (list_transform(p.keys, lambda k: coalesce(b.bearers[k], k)) AS keys)
FROM all_propositions AS p LEFT JOIN bearers_of_passages AS b USING (passage_id);

-- name: triples_of_bearers
-- Raw triples with the bearers' keys.
CREATE OR REPLACE TEMP TABLE sensed_triples AS
SELECT p.* REPLACE (list_transform(p.keys, lambda k: coalesce(b.bearers[k], k)) AS keys)
FROM all_triples AS p LEFT JOIN bearers_of_passages AS b USING (passage_id);
