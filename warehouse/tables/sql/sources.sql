-- Statements about records of several sources: whose counts, which are refused, and which the version keeps.

-- name: first_in_source
-- The first record of each source that uses each id: later ones with the same text are the same record.
CREATE OR REPLACE TEMP TABLE first_in_source AS
SELECT
    origin,
    record_id,
    min_by(record_hash, (source, line)) AS record_hash,
    min((source, line)) AS place
FROM read_parquet($passages)
GROUP BY origin, record_id;

-- name: used_twice
-- Records whose id an earlier one of the same source has with other text.
CREATE OR REPLACE TEMP TABLE used_twice AS
SELECT DISTINCT
    p.origin,
    p.source,
    p.line,
    'id ''' || p.record_id || ''' was already used with other text in ' || f.place[1] || ' line ' || f.place[2]
        AS reason,
    left(min(p.text) OVER (PARTITION BY p.origin, p.source, p.line), 200) AS excerpt
FROM read_parquet($passages) AS p JOIN first_in_source AS f USING (origin, record_id)
WHERE p.record_hash <> f.record_hash;

-- name: refused
-- What is of no use in the source that was read: what its reader refused, and ids used twice with different text.
CREATE OR REPLACE TEMP TABLE refused AS
SELECT source, line, reason, min(excerpt) AS excerpt FROM (
    SELECT source, line, reason, excerpt FROM read_parquet($quarantine)
    UNION ALL
    SELECT source, line, reason, excerpt FROM used_twice WHERE origin = $origin
)
GROUP BY source, line, reason;

-- name: no_kept_refused
-- Refused records of other sources: none so far.
CREATE OR REPLACE TEMP TABLE kept_refused AS SELECT * FROM quarantine LIMIT 0;

-- name: kept_refused
-- Refused records of another source, as its last run left them.
INSERT INTO kept_refused SELECT source, line, reason, excerpt FROM read_parquet($files);

-- name: refused_before
-- Refused records of earlier partial runs, but of the files that this run read, and of those attached to them.
INSERT INTO refused
SELECT source, line, reason, excerpt FROM read_parquet($files)
WHERE source NOT IN (SELECT unnest($read::VARCHAR[]))
    AND NOT EXISTS (SELECT 1 FROM unnest($read::VARCHAR[]) AS r(file) WHERE starts_with(source, r.file || '/'))
    AND (source, line, reason) NOT IN (SELECT (source, line, reason) FROM refused);

-- name: records_to_keep
-- The accepted records of the source that was read.
SELECT DISTINCT ON (r.record_id) r.record_id, r.title, r.text, r.source, r.metadata_json, r.origin, r.sections_json
FROM read_parquet($records) AS r
JOIN first_in_source AS f ON f.origin = $origin AND f.record_id = r.record_id AND f.place = (r.source, r.line)
ORDER BY r.record_id;

-- name: has_sections
-- Whether any record that was read has sections.
SELECT bool_or(sections_json <> '') FROM read_parquet($records);

-- name: refused_to_keep
-- The refused records of the source that was read.
SELECT source, line, reason, excerpt FROM refused ORDER BY source, line, reason;

-- name: count_read
-- Usable records that the source itself gave, those of no use, and how many of these lack a package, and are whole
-- files otherwise.
SELECT
    (SELECT count(DISTINCT record_id) FROM read_parquet($records)),
    (SELECT count(DISTINCT (source, line)) FROM read_parquet($quarantine)),
    (SELECT count(*) FROM read_parquet($quarantine) WHERE contains(reason, $lacking)),
    (SELECT count(DISTINCT source) FROM read_parquet($quarantine) WHERE line = 0 AND NOT contains(reason, $lacking));

-- name: some_refused
-- Records of no use that the source itself gave, for the message of a failed run.
SELECT source, line, reason FROM read_parquet($quarantine) ORDER BY source, line, reason LIMIT 10;

-- name: count_before
-- How many passages the version before has.
SELECT count(*) FROM passages;

-- name: whole_records
-- Its passages that are whole records: nothing was cut, and nothing trimmed.
SELECT passage_id, content_hash FROM passages WHERE passage_id = record_id;

-- name: same_passages
-- Rows of its passages that are records of the source again, with what the source says of them now.
SELECT
    p.* EXCLUDE (ordinal),
    p.content_hash AS record_hash,
    s.source,
    s.line,
    s.metadata_json,
    s.origin,
    '' AS sections_json
FROM read_parquet($same) AS s JOIN passages AS p ON p.passage_id = s.record_id;

-- name: kept_passages
-- The same of records that are kept of a source: those that are passages, word for word.
SELECT
    p.* EXCLUDE (ordinal),
    p.content_hash AS record_hash,
    r.source,
    $line::BIGINT AS line,
    r.metadata_json,
    $origin AS origin,
    '' AS sections_json
FROM read_parquet($records) AS r
JOIN passages AS p ON p.passage_id = r.record_id AND p.record_id = r.record_id
WHERE p.title = r.title AND p.text = r.text AND r.record_id NOT IN (SELECT unnest($gone::VARCHAR[]));

-- name: kept_otherwise
-- Ids of the other records that are kept of a source.
SELECT r.record_id
FROM read_parquet($records) AS r
LEFT JOIN passages AS p ON p.passage_id = r.record_id AND p.record_id = r.record_id
WHERE p.title IS DISTINCT FROM r.title OR p.text IS DISTINCT FROM r.text;
