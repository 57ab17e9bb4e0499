-- Statements that fill the tables of records and their metadata.

-- name: records_with_metadata
-- Some records that have any, in order.
SELECT record_id, metadata_json FROM records
WHERE metadata_json <> '{}' AND record_id > $after ORDER BY record_id LIMIT $limit;

-- name: add_values
-- Values of some records.
INSERT INTO metadata_values SELECT * FROM found_values;

-- name: fill_columns
-- The type of each field is what all its values are.
INSERT INTO metadata_columns
WITH typed AS (
    SELECT *, CASE
        WHEN count(*) OVER f = count(number) OVER f THEN 'number'
        WHEN count(*) OVER f = count(moment) OVER f THEN 'date'
        WHEN count(*) OVER f = count(*) FILTER (kind = 'flag') OVER f THEN 'flag'
        WHEN count(*) OVER f = count(*) FILTER (kind = 'text') OVER f THEN 'text'
        ELSE 'mixed'
    END AS type
    FROM metadata_values
    WINDOW f AS (PARTITION BY name)
)
SELECT
    name,
    any_value(type),
    count(DISTINCT record_id),
    count(DISTINCT value),
    min_by(value, (if(type = 'number', number, NULL), if(type = 'date', moment, NULL), value)),
    max_by(value, (if(type = 'number', number, NULL), if(type = 'date', moment, NULL), value)),
    max(ordinal) > 0
FROM typed
GROUP BY name
ORDER BY name;

-- name: drop_records
-- Records whose passages went to the quarantine.
DELETE FROM records WHERE record_id NOT IN (SELECT record_id FROM passages);

-- name: drop_values
-- Their values.
DELETE FROM metadata_values WHERE record_id NOT IN (SELECT record_id FROM records);

-- name: drop_columns
-- They are counted again.
DELETE FROM metadata_columns;
