-- Statements of readers on a published version.

-- name: passage_ids
-- Ids in number order.
SELECT passage_id FROM passages ORDER BY passage_id;

-- name: passage_titles
-- Titles in number order.
SELECT title FROM passages ORDER BY passage_id;

-- name: records_of_pieces
-- Ids of passages that are pieces of a record, and of their records.
SELECT passage_id, record_id FROM passages WHERE record_id <> passage_id;

-- name: ledger_tokens
-- Tokens of the replies that the extraction rests on, whoever paid for them.
SELECT coalesce(sum(prompt_tokens), 0)::BIGINT, coalesce(sum(completion_tokens), 0)::BIGINT FROM extraction_ledger;

-- name: entity_keys
-- Keys of named entities in number order.
SELECT key FROM entities WHERE is_named ORDER BY key;

-- name: entity_ids
-- Ids of named entities in number order.
SELECT entity_id FROM entities WHERE is_named ORDER BY key;

-- name: mentions_columns
-- Columns of the table of mentions; none in a database without it.
SELECT column_name FROM duckdb_columns()
WHERE database_name = current_database() AND table_name = 'mentions';

-- name: passages_by_id
-- Texts of the passages asked for, and where they come from: a second search for the same ids would cost as much again.
SELECT passage_id, title, text, record_id, document_id, start_offset, end_offset
FROM passages WHERE passage_id IN (SELECT unnest($ids));

-- name: locations_by_id
-- Where the passages asked for stand in their files.
SELECT * FROM locations WHERE passage_id IN (SELECT unnest($ids));

-- name: exact_names
-- Normalised names that are written otherwise than their key; several entities may share one.
SELECT norm_name, key FROM entities WHERE is_named AND norm_name <> key ORDER BY key;

-- name: relation_labels
-- Labels of relations in number order.
SELECT DISTINCT relation FROM relations ORDER BY relation;

-- name: distinct_titles
-- The gazetteer's titles.
SELECT DISTINCT title FROM passages ORDER BY title;

-- name: joined_names
-- Names with "and" between two capitals, which extraction may have joined (decision 0042): rules would find two names.
SELECT name FROM entities WHERE is_named AND regexp_matches(name, ' and \p{Lu}') ORDER BY name;

-- name: merged_names
-- Keys of names that are exactly one other entity's, by resolution or by hand; title aliases are not among them.
SELECT a.alias_key, any_value(e.key)
FROM aliases AS a JOIN entities AS e USING (entity_id)
WHERE a.kind IN ('er', 'manual') AND NOT a.ambiguous
GROUP BY a.alias_key
HAVING count(DISTINCT e.key) = 1 AND any_value(e.key) <> a.alias_key
ORDER BY a.alias_key;

-- name: namesakes
-- Keys of names that several entities bear (resolution.identity), and the keys of these.
SELECT a.alias_key, list(DISTINCT e.key ORDER BY e.key)
FROM aliases AS a JOIN entities AS e USING (entity_id)
WHERE a.kind = 'identity'
GROUP BY a.alias_key
ORDER BY a.alias_key;

-- name: surfaces
-- Passage number, spelling, tf and title flag of all names as written, in order; dates and numbers are left out. A place
-- counts under what stands there, mentions without a place (in the title, imported ones) under the row's spelling.
-- A lone mention of no title is its row's spelling: most rows need no text.
WITH p AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages),
m AS (
    SELECT p.n, m.unit_id, m.surface, m.tf, m.is_title, m.spans_json
    FROM mentions AS m JOIN p ON p.passage_id = m.unit_id JOIN entities AS e USING (entity_id)
    WHERE m.level = 'passage' AND e.is_named
),
placed AS (SELECT *, spans_json::JSON::BIGINT[][] AS spans FROM m WHERE tf > 1 OR is_title),
s AS (
    SELECT n, surface, tf, is_title FROM m WHERE tf = 1 AND NOT is_title
    UNION ALL
    SELECT n, substr(t.text, span[1] + 1, span[2] - span[1]), 1, is_title
    FROM (SELECT n, unit_id, is_title, unnest(spans) AS span FROM placed) JOIN passages AS t ON t.passage_id = unit_id
    UNION ALL
    SELECT n, surface, tf - len(spans), is_title FROM placed WHERE tf > len(spans)
)
SELECT n AS passage, surface, sum(tf)::DOUBLE AS tf, bool_or(is_title) AS is_title
FROM s GROUP BY n, surface ORDER BY n, surface;

-- name: tables_of_nodes
-- The table of a graph's nodes; none in the version of a text.
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND table_name = 'nodes';

-- name: triples_of_nodes
-- Triples of a graph whose subject has one of these ids of its own; of a value without an id, its entity id.
SELECT s.node_id, se.name, r.relation, coalesce(o.node_id, r.target_id), oe.name
FROM relations AS r
JOIN nodes AS s ON s.entity_id = r.source_id JOIN entities AS se ON se.entity_id = r.source_id
JOIN nodes AS o ON o.entity_id = r.target_id JOIN entities AS oe ON oe.entity_id = r.target_id
WHERE s.node_id IN (SELECT unnest($ids));

-- name: triples_of_entities
-- Relations of a text whose source has one of these keys.
SELECT s.key, s.name, r.relation, o.key, o.name
FROM relations AS r
JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS o ON o.entity_id = r.target_id
WHERE s.key IN (SELECT unnest($ids));

-- name: metadata_of_nodes
-- What a graph says of nodes with these ids of its own, and the rows that attached a text to them (with its passage, else '').
SELECT n.node_id, '', json_object('type', n.types_json::JSON) FROM nodes AS n
WHERE n.node_id IN (SELECT unnest($ids)) AND json_array_length(n.types_json) > 0
UNION ALL
SELECT n.node_id, p.passage_id, p.metadata_json FROM node_passages AS p JOIN nodes AS n USING (entity_id)
WHERE n.node_id IN (SELECT unnest($ids)) ORDER BY 1, 2, 3;

-- name: metadata_of_entities
-- The types of the entities of a text with these keys, in the form of metadata_of_nodes.
SELECT key, '', json_object('type', type) FROM entities
WHERE key IN (SELECT unnest($ids)) AND type IS NOT NULL ORDER BY 1;

-- name: origins_of_records
-- Source and metadata of the records asked for.
SELECT record_id, source, metadata_json FROM records WHERE record_id IN (SELECT unnest($ids));


-- name: metadata_types
-- Fields of metadata by the names that filters use, and their types.
SELECT 'metadata.' || name, type FROM metadata_columns ORDER BY name;

-- name: has_dates
-- A row if dates were looked for: the version has entities.
SELECT 1 FROM entities LIMIT 1;

-- name: metadata_values
-- Values of metadata, each under the name that filters use.
SELECT record_id, 'metadata.' || name AS name, kind, value, number, moment FROM metadata_values;

-- name: record_values
-- Values of the fields that every record has.
SELECT
    record_id,
    unnest(['id', 'document', 'title', 'source']) AS name,
    'text' AS kind,
    unnest([record_id, document_id, title, source]) AS value,
    NULL::DOUBLE AS number,
    NULL::TIMESTAMP AS moment
FROM records;

-- name: date_values
-- Dates that the passages of a record state, under `date` and under their role.
SELECT
    p.record_id,
    unnest(['date', 'date.' || d.role]) AS name,
    'date' AS kind,
    d.value,
    NULL::DOUBLE AS number,
    try_cast(d.value || CASE length(d.value) WHEN 4 THEN '-01-01' WHEN 7 THEN '-01' ELSE '' END AS TIMESTAMP) AS moment
FROM dates AS d JOIN passages AS p USING (passage_id);

-- name: relation_passages
-- Offset of each relation among those of relation_edges (graph.sql), and the passages that state it; NULL where none does.
WITH e AS (SELECT entity_id, row_number() OVER (ORDER BY key) - 1 AS n FROM entities WHERE is_named),
p AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS n FROM passages),
r AS (
    SELECT relation_id, row_number() OVER (ORDER BY s.n, t.n, r.relation) - 1 AS n
    FROM relations AS r JOIN e AS s ON s.entity_id = r.source_id JOIN e AS t ON t.entity_id = r.target_id
    WHERE s.n <> t.n
)
SELECT r.n AS relation, coalesce(p.n, -1) AS passage
FROM r LEFT JOIN relation_sources AS o USING (relation_id) LEFT JOIN p USING (passage_id)
ORDER BY r.n, p.n;
