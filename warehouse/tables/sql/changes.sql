-- Statements that compare the records of two versions: `before` is attached, the other is the database in use.

-- name: kept
-- What sources say of records besides title and text: nothing is known so far.
CREATE OR REPLACE TEMP TABLE kept (
    is_after BOOLEAN, record_id VARCHAR, origin VARCHAR, metadata_json VARCHAR
);

-- name: add_kept
-- The records that a version keeps of its sources; of an id in two, the one of the first source by name counts.
INSERT INTO kept
SELECT $is_after, record_id, min(origin), min_by(metadata_json, origin)
FROM read_parquet($files) GROUP BY record_id;

-- name: differing_records
-- Records of which a passage or the metadata differ between the two: no others can have changed.
CREATE OR REPLACE TEMP TABLE differing_records AS
SELECT DISTINCT unnest([a.record_id, b.record_id]) AS record_id
FROM passages AS a FULL JOIN before.passages AS b USING (passage_id)
WHERE (a.record_id, a.start_offset, a.content_hash) IS DISTINCT FROM (b.record_id, b.start_offset, b.content_hash)
UNION
SELECT record_id FROM kept GROUP BY record_id HAVING count(DISTINCT metadata_json) > 1;

-- name: all_records
-- There is no version before, so that all came.
CREATE OR REPLACE TEMP TABLE differing_records AS SELECT DISTINCT record_id FROM passages;

-- name: records_before
-- These records in the version before, by what their passages say.
CREATE OR REPLACE TEMP TABLE records_before AS
SELECT
    record_id,
    min(document_id) AS document_id,
    sha256(string_agg(content_hash, '' ORDER BY start_offset, passage_id)) AS content
FROM before.passages SEMI JOIN differing_records USING (record_id) GROUP BY record_id;

-- name: records_after
-- These in the version in use, likewise.
CREATE OR REPLACE TEMP TABLE records_after AS
SELECT
    record_id,
    min(document_id) AS document_id,
    sha256(string_agg(content_hash, '' ORDER BY start_offset, passage_id)) AS content
FROM passages SEMI JOIN differing_records USING (record_id) GROUP BY record_id;

-- name: no_records_before
-- There is no version before.
CREATE OR REPLACE TEMP TABLE records_before AS FROM records_after LIMIT 0;

-- name: changed_records
-- What was added, changed and deleted; of a deleted and an added record of equal content, that it was renamed.
CREATE OR REPLACE TEMP TABLE changed_records AS
WITH gone AS (
    SELECT record_id, document_id, content, row_number() OVER (PARTITION BY content ORDER BY record_id) AS number
    FROM records_before ANTI JOIN records_after USING (record_id)
), fresh AS (
    SELECT record_id, document_id, content, row_number() OVER (PARTITION BY content ORDER BY record_id) AS number
    FROM records_after ANTI JOIN records_before USING (record_id)
), found AS (
    SELECT f.record_id, f.document_id, if(g.record_id IS NULL, 'added', 'renamed') AS kind, g.record_id AS from_id
    FROM fresh AS f LEFT JOIN gone AS g USING (content, number)
    UNION ALL
    SELECT record_id, document_id, 'deleted', NULL FROM gone ANTI JOIN fresh USING (content, number)
    UNION ALL
    SELECT a.record_id, a.document_id, 'changed', NULL
    FROM records_after AS a
    JOIN records_before AS b USING (record_id)
    LEFT JOIN kept AS ka ON ka.is_after AND ka.record_id = a.record_id
    LEFT JOIN kept AS kb ON NOT kb.is_after AND kb.record_id = a.record_id
    WHERE a.content <> b.content OR ka.metadata_json <> kb.metadata_json
)
SELECT f.record_id, f.document_id, f.kind, f.from_id, coalesce(k.origin, '') AS source
FROM found AS f LEFT JOIN kept AS k ON k.record_id = f.record_id AND k.is_after = (f.kind <> 'deleted');

-- name: fill_changes
-- The table of a version.
INSERT INTO changes
SELECT record_id, document_id, kind, from_id, source, $version FROM changed_records ORDER BY record_id;

-- name: count_changes
-- How many records changed, by kind.
SELECT kind, count(*) FROM changed_records GROUP BY kind;

-- name: deleted_ids
-- How many ids of a source's records no source has any more.
SELECT count(*)
FROM read_parquet($before) AS b
ANTI JOIN (SELECT record_id FROM read_parquet($after)) AS a USING (record_id);

-- name: deleted_records
-- How many of these records are gone under any id, how many lay below folders that cannot be opened, and one of those.
WITH gone AS (
    SELECT b.source
    FROM read_parquet($before) AS b
    ANTI JOIN (SELECT record_id FROM read_parquet($after)) AS a USING (record_id)
    ANTI JOIN (SELECT title, text FROM read_parquet($after)) AS c ON c.title = b.title AND c.text = b.text
)
SELECT
    count(*),
    count(*) FILTER (unopened IS NOT NULL),
    min(unopened)
FROM (
    SELECT (
        SELECT min(q.source) FROM quarantine AS q
        WHERE starts_with(q.reason, $reason) AND starts_with(g.source, q.source || '/')
    ) AS unopened
    FROM gone AS g
);

-- name: deleted_relations
-- How many relations a graph had, and how many of them it has no longer.
SELECT
    (SELECT count(*) FROM before.relations),
    (SELECT count(*) FROM before.relations ANTI JOIN relations USING (relation_id));

-- name: deleted_passages
-- How many records the passages of the version before came from, and how many of them have none any longer.
SELECT
    (SELECT count(DISTINCT record_id) FROM before.passages),
    (SELECT count(DISTINCT record_id) FROM before.passages ANTI JOIN passages USING (record_id));
