-- Views of a published version that answer the usual questions.

-- name: passages_of_entity
-- Passages that mention an entity: WHERE entity = 'Marie Curie'.
CREATE OR REPLACE VIEW passages_of_entity AS
SELECT e.name AS entity, e.key AS entity_key, p.passage_id, p.title, m.tf, m.is_title, p.text
FROM entities AS e
JOIN mentions AS m ON m.entity_id = e.entity_id AND m.level = 'passage'
JOIN passages AS p ON p.passage_id = m.unit_id;

-- name: entities_of_passage
-- Entities that a passage mentions: WHERE passage_id = 'p1'.
CREATE OR REPLACE VIEW entities_of_passage AS
SELECT m.unit_id AS passage_id, e.name AS entity, e.type, m.tf, m.is_title, e.df
FROM mentions AS m JOIN entities AS e USING (entity_id) WHERE m.level = 'passage';

-- name: document_mentions
-- Entities of whole documents.
CREATE OR REPLACE VIEW document_mentions AS
SELECT p.document_id, m.entity_id, sum(m.tf) AS tf, count(*) AS passage_count
FROM mentions AS m JOIN passages AS p ON p.passage_id = m.unit_id
WHERE m.level = 'passage' GROUP BY p.document_id, m.entity_id;

-- name: neighbours
-- Relations of an entity in both directions: WHERE entity = 'Marie Curie'.
CREATE OR REPLACE VIEW neighbours AS
SELECT s.name AS entity, 'out' AS direction, r.relation, t.name AS neighbour, r.count, r.relation_id
FROM relations AS r JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id
UNION ALL
SELECT t.name, 'in', r.relation, s.name, r.count, r.relation_id
FROM relations AS r JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id;

-- name: relation_provenance
-- The passages that state a relation.
CREATE OR REPLACE VIEW relation_provenance AS
SELECT s.name AS source, r.relation, t.name AS target, p.passage_id, p.title, p.text, r.extractor
FROM relations AS r
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
JOIN relation_sources AS x USING (relation_id)
JOIN passages AS p USING (passage_id);

-- name: dates
-- Dates that passages state, and what they say happened then.
-- A role is the last event named before the date in its sentence. The words are verbs of
-- worker/reading/lists/attributes.toml but for those with many other uses (began, created, introduced, started).
CREATE OR REPLACE VIEW dates AS
WITH places AS (
    SELECT m.unit_id AS passage_id, e.key[6:] AS value, unnest(from_json(m.spans_json, '[["BIGINT"]]')) AS span
    FROM mentions AS m JOIN entities AS e USING (entity_id)
    WHERE m.level = 'passage' AND e.is_date
),
surroundings AS (
    SELECT
        d.passage_id,
        p.title,
        d.value,
        d.span[1] AS start_offset,
        d.span[2] AS end_offset,
        regexp_extract(p.text[greatest(1, d.span[1] - 119):d.span[1]], '(?s)(?:.*[.;]\s)?(.*)$', 1) AS before,
        p.text[d.span[1] + 1:d.span[2]] AS written,
        p.text[d.span[2] + 1:d.span[2] + 60] AS after
    FROM places AS d JOIN passages AS p USING (passage_id)
),
cues AS (
    SELECT
        *,
        start_offset < 160
        AND regexp_matches(before, '\([^()]*$')
        AND NOT regexp_matches(
            before,
            '(?i)\b(?:reign\w*|ruled|r\.|fl\.|active|served|film|album|song|novel|series|in office|founded|est\.)[^()]*$'
        ) AS is_life,
        regexp_extract(
            before,
            '(?is)^.*\b(born|died|killed|murdered|assassinated|executed|founded|established|formed|incorporated'
            || '|organi[sz]ed|chartered|opened|inaugurated|built|completed|constructed|erected|finished|released'
            || '|published|premiered|aired|printed|issued|launched)\b(.*)$',
            ['verb', 'between']
        ) AS cue
    FROM surroundings
),
roles AS (
    SELECT
        * EXCLUDE (cue),
        -- another year in between is the event's: "killed in 1941, while her husband was deported in 1943"
        if(regexp_matches(cue.between, '[12][0-9]{3}'), '', lower(cue.verb)) AS verb
    FROM cues
)
SELECT
    passage_id,
    title,
    value,
    value[:4]::BIGINT AS year,
    CASE length(value) WHEN 4 THEN 'year' WHEN 7 THEN 'month' ELSE 'day' END AS precision,
    CASE
        WHEN is_life AND regexp_matches(before, '(?i)(?:\bdied|\bd\.|†)[^()]*$') THEN 'death'
        WHEN is_life AND regexp_matches(before, '[0-9?][^()]{0,40}[–—-]\s{0,2}(?:c\. ?|about |circa )?$') THEN 'death'
        WHEN is_life AND regexp_matches(before, '(?i)\b(?:born|b\.)[^()]*$') THEN 'birth'
        WHEN is_life AND regexp_matches(after, '^[^()]{0,32}[–—-]\s{0,2}[^()]{0,20}[12][0-9]{3}') THEN 'birth'
        WHEN
            regexp_matches(before, '\b(?:is|was|are|were)\s+(?:an?|the)\s+(?:[\w-]+\s+)?$')
            AND regexp_matches(after, '^[\s\w''-]*\b(?:films?|movie|album|song|single|novel|book|game|play|opera|episode)\b')
            THEN 'release'
        WHEN verb = 'born' THEN 'birth'
        WHEN verb IN ('died', 'killed', 'murdered', 'assassinated', 'executed') THEN 'death'
        WHEN verb IN ('opened', 'inaugurated') THEN 'opening'
        WHEN verb IN ('built', 'completed', 'constructed', 'erected', 'finished') THEN 'building'
        WHEN verb IN ('released', 'published', 'premiered', 'aired', 'printed', 'issued') THEN 'release'
        WHEN verb = 'launched' THEN 'launch'
        WHEN verb <> '' THEN 'founding'
    END AS role,
    trim(before || written || regexp_extract(after, '(?s)^(.*?)(?:[.;]\s|$)', 1)) AS stated,
    start_offset,
    end_offset
FROM roles;

-- name: stages
-- What each stage of the version counted.
CREATE OR REPLACE VIEW stages AS
SELECT r.stage, c.key AS what, c.value::BIGINT AS "count"
FROM version_stages AS r, json_each(r.counts_json) AS c;
