-- Statements of a full run: the tables and views that resolve.sql reads, of all raw rows. resolve_update.sql has statements
-- of the same names for an incremental run.

-- name: keyed_mentions
-- All raw mentions once it is decided: `key` is the entity's, `own_key` the name's.
CREATE OR REPLACE TEMP TABLE keyed_mentions AS
SELECT m.* REPLACE (coalesce(k.canonical, m.key) AS key), m.key AS own_key
FROM all_mentions AS m LEFT JOIN key_map AS k ON k.key = m.key;

-- name: phrases
-- Keys that occur in a proposition.
CREATE OR REPLACE TEMP TABLE phrases AS
SELECT DISTINCT coalesce(k.canonical, p.key) AS key
FROM (SELECT unnest(keys) AS key FROM all_propositions) AS p LEFT JOIN key_map AS k USING (key);

-- name: placed_mentions
-- All of them.
CREATE OR REPLACE TEMP VIEW placed_mentions AS FROM keyed_mentions;

-- name: stated_relations
-- All raw relations.
CREATE OR REPLACE TEMP VIEW stated_relations AS FROM all_relations;

-- name: derived_relations
-- All relations with known ends.
CREATE OR REPLACE TEMP VIEW derived_relations AS FROM raw_relations;

-- name: stated
-- All raw propositions, or triples, and those whose names are read.
CREATE OR REPLACE TEMP VIEW stated AS FROM all_statements;
CREATE OR REPLACE TEMP VIEW naming AS FROM all_statements;

-- name: have_titles_changed
-- The aliases of all titles are derived.
SELECT true;
