-- Statements that bring the tables of passages and records up to date: they begin as those of the version before, and most
-- records were read again as they were (`same_records`), the others split (`fresh_passages`).

-- name: same_records
-- Records that are whole passages of the version before, with what the source says of them now.
CREATE OR REPLACE TEMP TABLE same_records AS
SELECT record_id, source, line, metadata_json, false AS is_kept FROM read_parquet($same);

-- name: fresh_passages
-- Passages of all other records that were read.
CREATE OR REPLACE TEMP TABLE fresh_passages AS FROM read_parquet($passages);

-- name: are_apart
-- Whether no id is in two sources: neither of those that are kept, nor of those that were read or are mentioned.
SELECT (SELECT count(*) = count(DISTINCT record_id) FROM read_parquet($all)) AND NOT EXISTS (
    SELECT 1 FROM read_parquet($others)
    WHERE record_id IN (SELECT record_id FROM fresh_passages UNION ALL SELECT record_id FROM read_parquet($mentioned))
);

-- name: kept_records
-- Of the sources that are kept, all records but those that are mentioned are as they were.
INSERT INTO same_records
SELECT record_id, source, $line, metadata_json, true FROM records
WHERE record_id IN (SELECT record_id FROM read_parquet($kept))
    AND record_id NOT IN (SELECT record_id FROM read_parquet($mentioned));

-- name: fresh_records
-- These records, by where they stand.
CREATE OR REPLACE TEMP TABLE fresh_records AS
SELECT DISTINCT record_id, source, line, metadata_json FROM fresh_passages;

-- name: is_update
-- Whether nothing was refused, now or before, no id stands for two records or pieces, and few records are others.
SELECT
    NOT EXISTS (FROM read_parquet($quarantine))
    AND NOT EXISTS (FROM quarantine)
    AND (SELECT count(*) = count(DISTINCT record_id) FROM (FROM same_records UNION ALL BY NAME FROM fresh_records))
    AND NOT EXISTS (
        SELECT 1 FROM fresh_passages AS p JOIN (FROM same_records UNION ALL BY NAME FROM fresh_records) AS r
            ON r.record_id = p.passage_id
        WHERE p.passage_id <> p.record_id
    )
    AND (SELECT count(*) FROM fresh_records) <= $most * (SELECT count(*) FROM same_records);

-- name: touched_records
-- Records that came, went or changed, or of which the source says something else.
CREATE OR REPLACE TEMP TABLE touched_records AS
SELECT record_id FROM records ANTI JOIN same_records USING (record_id)
UNION
SELECT record_id FROM fresh_records
UNION
SELECT record_id FROM records AS b JOIN same_records AS s USING (record_id)
WHERE (b.source, b.metadata_json) <> (s.source, s.metadata_json);

-- name: touched_documents
-- Their documents, before and now.
CREATE OR REPLACE TEMP TABLE touched_documents AS
SELECT document_id FROM records SEMI JOIN touched_records USING (record_id)
UNION
SELECT document_id FROM fresh_passages;

-- name: passages
-- Passages of these documents, numbered inside them.
SELECT
    passage_id, record_id, document_id,
    row_number() OVER (PARTITION BY document_id ORDER BY record_id, start_offset) - 1,
    title, text, start_offset, end_offset, token_count, content_hash
FROM (
    SELECT * EXCLUDE (ordinal) FROM passages SEMI JOIN touched_documents USING (document_id)
    SEMI JOIN same_records USING (record_id)
    UNION ALL BY NAME
    SELECT * EXCLUDE (record_hash, source, line, metadata_json, origin, location) FROM fresh_passages
);

-- name: records
-- The touched records that are there.
SELECT r.record_id, any_value(q.document_id), any_value(q.title), any_value(r.source), any_value(r.metadata_json)
FROM (FROM same_records UNION ALL BY NAME FROM fresh_records) AS r
SEMI JOIN touched_records AS t USING (record_id)
JOIN passages AS q USING (record_id)
GROUP BY r.record_id;

-- name: locations
-- Where passages stand in their files; records with such parts are always split.
SELECT passage_id, unnest(location) FROM fresh_passages WHERE location IS NOT NULL;

-- name: documents
-- Touched documents that still have passages.
SELECT
    q.document_id,
    min_by(q.title, q.passage_id),
    lower(nfc_normalize(trim(regexp_replace(min_by(q.title, q.passage_id), '\s+', ' ', 'g')))),
    min_by(r.source, q.passage_id),
    sha256(string_agg(q.content_hash, '' ORDER BY q.passage_id)),
    count(*),
    min_by(r.metadata_json, q.passage_id)
FROM passages AS q SEMI JOIN touched_documents USING (document_id) JOIN records AS r USING (record_id)
GROUP BY q.document_id;

-- name: touched_metadata
-- What is said of the touched records.
SELECT record_id, metadata_json FROM records SEMI JOIN touched_records USING (record_id)
WHERE metadata_json <> '{}' ORDER BY record_id;

-- name: records_to_keep
-- The records of the source, in order: as the version before keeps them, or as they were read now.
SELECT
    b.record_id, b.title, b.text, s.source, s.metadata_json, b.origin,
    if(s.is_kept, coalesce(b.sections_json, ''), '') AS sections_json
FROM (FROM read_parquet($before) UNION ALL BY NAME (SELECT '' AS sections_json LIMIT 0)) AS b
JOIN same_records AS s USING (record_id)
UNION ALL
SELECT record_id, title, text, source, metadata_json, origin, sections_json FROM read_parquet($records)
ORDER BY record_id;

-- name: keeps_sections
-- Whether the version before keeps sections of any record that stays as it was.
SELECT count(*) > 0 FROM read_parquet($before)
WHERE sections_json <> '' AND record_id IN (SELECT record_id FROM same_records WHERE is_kept);
