-- Statements that turn the parts of an ingest into documents, passages and quarantine.

-- name: first_use
-- The record of each id: of the first source by name that has one.
CREATE OR REPLACE TEMP TABLE first_use AS
SELECT
    record_id,
    min_by(record_hash, origin) AS record_hash,
    min_by(place, origin) AS place,
    min(origin) AS origin
FROM first_in_source
GROUP BY record_id;

-- name: fill_quarantine
-- Everything that was refused in a source, and ids that another source or a piece of a record has. A long record has
-- several pieces: which of them is shown must not depend on the order in which they were read.
INSERT INTO quarantine
SELECT source, line, reason, min(excerpt) FROM (
    SELECT source, line, reason, excerpt FROM refused
    UNION ALL
    SELECT source, line, reason, excerpt FROM kept_refused
    UNION ALL
    SELECT
        s.place[1],
        NULL,
        'id ''' || s.record_id || ''' of source ''' || s.origin || ''' has another text in source ''' || f.origin
            || ''', which comes first by name; give one of the two another id',
        left(p.text, 200)
    FROM first_in_source AS s
    JOIN first_use AS f USING (record_id)
    JOIN read_parquet($passages) AS p
        ON p.origin = s.origin AND p.record_id = s.record_id AND (p.source, p.line) = s.place
    WHERE s.record_hash <> f.record_hash
    UNION ALL
    SELECT DISTINCT
        source,
        nullif(line, -1),
        'id ''' || record_id || ''' is also the id of a piece of a longer record; give it another',
        left(min(text) OVER (PARTITION BY origin, source, line, record_id), 200)
    FROM read_parquet($passages)
    WHERE record_id IN (SELECT passage_id FROM read_parquet($passages) WHERE passage_id <> record_id)
)
GROUP BY source, line, reason
ORDER BY source, line, reason;

-- name: drop_piece_ids
-- Records whose id a longer record's piece has are refused (see fill_quarantine).
DELETE FROM first_use
WHERE record_id IN (SELECT passage_id FROM read_parquet($passages) WHERE passage_id <> record_id);

-- name: fill_passages
-- Passages of the accepted records, numbered inside their document.
INSERT INTO passages BY NAME
SELECT
    p.* EXCLUDE (record_hash, source, line, metadata_json, origin, location),
    row_number() OVER (PARTITION BY document_id ORDER BY record_id, start_offset) - 1 AS ordinal
FROM read_parquet($passages) AS p JOIN first_use AS f USING (record_id)
WHERE p.origin = f.origin AND (p.source, p.line) = f.place
ORDER BY passage_id;

-- name: fill_locations
-- Where the accepted passages stand in their files, of those of which anything is known.
INSERT INTO locations BY NAME
SELECT p.passage_id, unnest(p.location)
FROM read_parquet($passages) AS p JOIN first_use AS f USING (record_id)
WHERE p.origin = f.origin AND (p.source, p.line) = f.place AND p.location IS NOT NULL
ORDER BY p.passage_id;

-- name: drop_locations
-- Locations of passages that are no more.
DELETE FROM locations WHERE passage_id NOT IN (SELECT passage_id FROM passages);

-- name: fill_documents
-- Documents: passages of a file, or of records that share a title.
INSERT INTO documents
SELECT
    q.document_id,
    min_by(q.title, q.passage_id),
    lower(nfc_normalize(trim(regexp_replace(min_by(q.title, q.passage_id), '\s+', ' ', 'g')))),
    min_by(r.source, q.passage_id),
    sha256(string_agg(q.content_hash, '' ORDER BY q.passage_id)),
    count(*),
    min_by(r.metadata_json, q.passage_id)
FROM passages AS q
JOIN (
    SELECT p.passage_id, p.source, p.metadata_json
    FROM read_parquet($passages) AS p JOIN first_use AS f USING (record_id)
    WHERE p.origin = f.origin AND (p.source, p.line) = f.place
) AS r USING (passage_id)
GROUP BY q.document_id
ORDER BY q.document_id;

-- name: fill_records
-- Records of the accepted passages.
INSERT INTO records
SELECT r.record_id, any_value(q.document_id), any_value(r.title), any_value(r.source), any_value(r.metadata_json)
FROM (
    SELECT DISTINCT record_id, p.title, p.source, metadata_json
    FROM read_parquet($passages) AS p JOIN first_use AS f USING (record_id)
    WHERE p.origin = f.origin AND (p.source, p.line) = f.place
) AS r
JOIN passages AS q USING (record_id)
GROUP BY r.record_id
ORDER BY r.record_id;

-- name: count_records
-- Accepted and refused records (of those without a line each has its own reason), and how many of these lack a package,
-- and are whole files otherwise.
SELECT
    (SELECT count(*) FROM first_use),
    (SELECT count(DISTINCT (source, line, if(line IS NULL, reason, ''))) FROM quarantine),
    (SELECT count(*) FROM quarantine WHERE contains(reason, $lacking)),
    (SELECT count(DISTINCT source) FROM quarantine WHERE line = 0 AND NOT contains(reason, $lacking));

-- name: some_quarantined
-- Refused records, for the message of a failed run.
SELECT source, line, reason FROM quarantine ORDER BY source, line, reason LIMIT 10;

-- name: content_of_passages
-- What extraction, names and vectors depend on: every passage's id, title and text.
SELECT passage_id || ' ' || content_hash FROM passages ORDER BY passage_id;

-- name: titles
-- The gazetteer's titles.
SELECT DISTINCT title FROM passages ORDER BY title;

-- name: are_titles_same
-- Whether every passage has the title that it had, and none came or went.
SELECT NOT EXISTS (
    SELECT 1 FROM passages AS p FULL JOIN version_before.passages AS b USING (passage_id)
    WHERE p.title IS DISTINCT FROM b.title
);

-- name: are_joined_names_same
-- Whether the names with "and" between two capitals are those of the version before.
SELECT NOT EXISTS (
    SELECT 1
    FROM (SELECT name FROM entities WHERE is_named AND regexp_matches(name, ' and \p{Lu}')) AS e
    FULL JOIN (
        SELECT name FROM version_before.entities WHERE is_named AND regexp_matches(name, ' and \p{Lu}')
    ) AS b USING (name)
    WHERE e.name IS NULL OR b.name IS NULL
);

-- name: passage_range
-- Passages of one batch; only ids are sorted to find them.
SELECT passage_id, record_id, document_id, ordinal, title, text, start_offset, end_offset
FROM passages
WHERE passage_id IN (SELECT passage_id FROM passages ORDER BY passage_id LIMIT $limit OFFSET $offset)
ORDER BY passage_id;

-- name: document_range
-- Passages of the documents of one batch, in the order of reading.
SELECT passage_id, record_id, document_id, ordinal, title, text, start_offset, end_offset
FROM passages
WHERE document_id IN (SELECT document_id FROM documents ORDER BY document_id LIMIT $limit OFFSET $offset)
ORDER BY document_id, ordinal;

-- name: count_documents
-- Sizes of what was ingested.
SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages);

-- name: content_of_the_rest
-- Checksums of everything ingested besides ids, titles and texts.
SELECT
    (SELECT coalesce(hex(bit_xor(md5_number(d::VARCHAR))), '') FROM documents AS d),
    (SELECT coalesce(hex(bit_xor(md5_number((p.passage_id, p.record_id, p.ordinal, p.start_offset)::VARCHAR))), '')
        FROM passages AS p),
    (SELECT coalesce(hex(bit_xor(md5_number(r::VARCHAR))), '') FROM records AS r),
    (SELECT coalesce(hex(bit_xor(md5_number(q::VARCHAR))), '') FROM quarantine AS q);

-- name: locations_of_passages
-- Checksum of where passages stand in their records and documents.
SELECT coalesce(hex(bit_xor(md5_number((passage_id, record_id, ordinal, start_offset)::VARCHAR))), '') FROM passages;

-- name: locations_in_parts
-- Where each passage is in the source; -1 is the line of a record that was kept (records.py).
CREATE OR REPLACE TEMP TABLE places AS
SELECT passage_id, min((source, line))[1] AS source, nullif(min((source, line))[2], -1) AS line
FROM read_parquet($passages) GROUP BY passage_id;

-- name: locations_in_documents
-- The file of each passage, where its line is not known any more.
CREATE OR REPLACE TEMP TABLE places AS
SELECT p.passage_id, d.source, NULL::BIGINT AS line FROM passages AS p JOIN documents AS d USING (document_id);

-- name: quarantine_faults
-- Passages that a rule failed on join the refused records.
INSERT INTO quarantine
SELECT w.source, w.line, 'passage ''' || p.passage_id || ''': ' || min(f.reason), left(any_value(p.text), 200)
FROM read_parquet($faults) AS f
JOIN passages AS p USING (passage_id)
JOIN places AS w USING (passage_id)
GROUP BY w.source, w.line, p.passage_id;

-- name: drop_faults
-- They are passages no more.
DELETE FROM passages WHERE passage_id IN (SELECT passage_id FROM read_parquet($faults));

-- name: number_again
-- The passages left, numbered inside their documents.
UPDATE passages SET ordinal = q.number
FROM (
    SELECT passage_id, row_number() OVER (PARTITION BY document_id ORDER BY record_id, start_offset) - 1 AS number
    FROM passages
) AS q
WHERE q.passage_id = passages.passage_id AND q.number <> passages.ordinal;

-- name: drop_empty_documents
-- Documents whose passages are all gone.
DELETE FROM documents WHERE document_id NOT IN (SELECT document_id FROM passages);

-- name: count_again
-- Sizes and checksums of the documents left.
UPDATE documents SET passage_count = q.passage_count, content_hash = q.content_hash
FROM (
    SELECT document_id, count(*) AS passage_count,
        sha256(string_agg(content_hash, '' ORDER BY passage_id)) AS content_hash
    FROM passages GROUP BY document_id
) AS q
WHERE q.document_id = documents.document_id AND q.content_hash <> documents.content_hash;

-- name: count_left
-- Accepted records and refused ones after passages were refused, and how many of these lack a package, and are whole
-- files otherwise.
SELECT
    (SELECT count(DISTINCT record_id) FROM passages),
    (SELECT count(DISTINCT (source, line, if(line IS NULL, reason, ''))) FROM quarantine),
    (SELECT count(*) FROM quarantine WHERE contains(reason, $lacking)),
    (SELECT count(DISTINCT source) FROM quarantine WHERE line = 0 AND NOT contains(reason, $lacking));
