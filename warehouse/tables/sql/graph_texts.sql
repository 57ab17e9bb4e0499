-- Statements that turn texts for a graph's nodes into passages and their links to nodes. Documents and passages are filled by
-- the statements of ingest.sql, which read first_use.

-- name: attached_rows
-- Rows whose node the graph has.
CREATE OR REPLACE TEMP TABLE attached AS
SELECT n.entity_id, a.record_id, a.source, a.line, a.metadata_json
FROM read_parquet($attached) AS a JOIN nodes AS n USING (node_id);

-- name: refused_rows
-- Rows that readers refused, and those of nodes that the graph does not have.
CREATE OR REPLACE TEMP TABLE refused AS
SELECT source, line, reason, excerpt FROM read_parquet($refused)
UNION ALL
SELECT source, line, 'the graph has no node ''' || node_id || '''', excerpt
FROM read_parquet($attached) ANTI JOIN nodes USING (node_id);

-- name: fill_quarantine
-- Everything that readers refused, and texts of nodes that the graph does not have; both files may have one name.
INSERT INTO quarantine
SELECT source, line, reason, min(excerpt)
FROM (SELECT source, line, reason, excerpt FROM read_parquet($quarantine) UNION ALL FROM refused)
GROUP BY source, line, reason ORDER BY source, line, reason;

-- name: first_attached
-- The first row with each text, as first_use of ingest.sql has it.
CREATE OR REPLACE TEMP TABLE first_use AS
SELECT
    record_id,
    min_by(record_hash, (source, line)) AS record_hash,
    min((source, line)) AS place,
    min_by(origin, (source, line)) AS origin
FROM read_parquet($passages) SEMI JOIN attached USING (record_id, source, line)
GROUP BY record_id;

-- name: fill_node_passages
-- Passages of each node; of equal texts of one node the smaller metadata.
INSERT INTO node_passages
SELECT a.entity_id, p.passage_id, min(a.metadata_json)
FROM attached AS a JOIN passages AS p USING (record_id)
GROUP BY a.entity_id, p.passage_id ORDER BY a.entity_id, p.passage_id;

-- name: count_rows
-- Attached and refused rows.
SELECT
    (SELECT count(DISTINCT (source, line)) FROM attached),
    (SELECT count(DISTINCT (source, line)) FROM refused);

-- name: some_refused
-- Refused rows, for the message of a failed run.
SELECT source, line, reason FROM refused ORDER BY source, line, reason LIMIT 10;
