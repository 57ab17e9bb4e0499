-- Statements of an incremental run: which rows of resolution's tables differ from those of the version before (`published`,
-- attached). What is derived again may be more than what differs, never less. Raw rows are in the views all_mentions,
-- all_relations, all_propositions, all_triples, those of one kind and of changed passages in rows_now and rows_before, and
-- those of passages that mention moved names in moved_relations, moved_propositions, moved_triples.

-- name: changed_passages
-- Passages that came, went, changed, or belong to another document.
CREATE OR REPLACE TEMP TABLE changed_passages AS
SELECT unnest($passages) AS passage_id
UNION
SELECT p.passage_id FROM passages AS p JOIN published.passages AS b USING (passage_id)
WHERE p.document_id <> b.document_id;

-- name: moved_passages
-- Those of them that belong to another document: the same mentions count for another one.
CREATE OR REPLACE TEMP TABLE moved_passages AS
SELECT passage_id FROM changed_passages
JOIN passages AS p USING (passage_id) JOIN published.passages AS b USING (passage_id)
WHERE p.document_id <> b.document_id;

-- name: rows_that_differ
-- Raw rows of one kind that changed passages have now and had not before, or the other way round, and all of moved ones.
SELECT * EXCLUDE (way) FROM (SELECT *, 1 AS way FROM rows_now UNION ALL SELECT *, -1 FROM rows_before)
GROUP BY ALL HAVING sum(way) <> 0 OR passage_id IN (FROM moved_passages);

-- name: named_keys
-- Keys of names of which something else is said.
CREATE OR REPLACE TEMP TABLE named_keys AS SELECT DISTINCT key FROM differing_mentions;

-- name: named_now
-- All mentions of names of which something else is said.
CREATE OR REPLACE TEMP TABLE resolved_mentions AS
SELECT * EXCLUDE (description, spans_json), key AS own_key FROM all_mentions SEMI JOIN named_keys USING (key);

-- name: key_map_before
-- Keys that were merged into another entity's.
CREATE OR REPLACE TEMP TABLE key_map_before AS
SELECT DISTINCT a.alias_key AS key, e.key AS canonical
FROM published.aliases AS a JOIN published.entities AS e USING (entity_id)
WHERE a.kind IN ('er', 'manual') AND NOT a.ambiguous AND a.alias_key <> e.key;

-- name: keep_key_map
-- All other names are merged as before, each into the same entity.
INSERT INTO key_map
WITH kept AS (FROM key_map_before WHERE key NOT IN (SELECT unnest($keys::VARCHAR[])))
FROM kept
UNION
SELECT canonical, canonical FROM kept;

-- name: keep_decisions
-- The same decisions about all other names.
INSERT INTO decisions
SELECT a.alias_key, a.kind, a.scope, e.key, a.ambiguous, a.reason
FROM published.aliases AS a LEFT JOIN published.entities AS e USING (entity_id)
WHERE a.kind = 'er' AND a.alias_key NOT IN (SELECT unnest($keys::VARCHAR[]));

-- name: passages_to_read
-- Passages whose raw rows are read again, found later: those that mention moved names, and those that state what changed.
CREATE OR REPLACE TEMP TABLE mentioning_passages (passage_id VARCHAR, is_title BOOLEAN);
CREATE OR REPLACE TEMP TABLE adjacent_passages (passage_id VARCHAR);

-- name: entities_of
-- The entities that the keys in a table lead to, before or now.
CREATE OR REPLACE TEMP MACRO entities_of(keys_table) AS TABLE
WITH meant AS (
    SELECT coalesce(m.canonical, k.key) AS key FROM query_table(keys_table) AS k LEFT JOIN key_map AS m USING (key)
    UNION
    SELECT coalesce(b.canonical, k.key) FROM query_table(keys_table) AS k LEFT JOIN key_map_before AS b USING (key)
)
SELECT key, left(sha256('entity' || chr(10) || key), 32) AS entity_id FROM meant;

-- name: keyed_mentions
-- Mentions of touched entities; `key` is the entity's, `own_key` the name's.

-- Keys that lead to another entity's key than before.
CREATE OR REPLACE TEMP TABLE remapped_keys AS
SELECT key FROM (SELECT * FROM key_map WHERE key <> canonical) AS m FULL JOIN key_map_before AS b USING (key)
WHERE m.canonical IS DISTINCT FROM b.canonical;
-- Keys of names of which something else is said, or that other propositions name, and remapped ones.
CREATE OR REPLACE TEMP TABLE changed_keys AS
FROM named_keys
UNION
SELECT unnest(keys) FROM differing_propositions
UNION
FROM remapped_keys;
-- Entities that these lead to, before or now.
CREATE OR REPLACE TEMP TABLE touched_entities AS FROM entities_of('changed_keys');
-- All keys that lead to touched entities now.
CREATE OR REPLACE TEMP TABLE leading_keys AS
SELECT m.key, m.canonical FROM key_map AS m SEMI JOIN touched_entities AS t ON t.key = m.canonical
UNION ALL
SELECT key, key FROM touched_entities ANTI JOIN key_map USING (key);
CREATE OR REPLACE TEMP TABLE keyed_mentions AS
SELECT m.* REPLACE (k.canonical AS key), m.key AS own_key
FROM all_mentions AS m JOIN leading_keys AS k ON k.key = m.key;

-- name: phrases
-- Keys of touched entities that occur in a proposition.
CREATE OR REPLACE TEMP TABLE phrases AS
SELECT DISTINCT k.canonical AS key
FROM (SELECT unnest(keys) AS key FROM all_propositions) JOIN leading_keys AS k USING (key);

-- name: placed_mentions
-- Mentions in changed passages, or of entities whose names moved.

-- Keys that lead to another entity than before: remapped ones, and all whose entity came or went.
CREATE OR REPLACE TEMP TABLE moved_keys AS
WITH changed AS (
    SELECT key FROM (
        SELECT key FROM entities SEMI JOIN touched_entities USING (key)
        UNION ALL
        SELECT key FROM published.entities SEMI JOIN touched_entities USING (key)
    ) GROUP BY key HAVING count(*) = 1
)
FROM remapped_keys
UNION
FROM changed
UNION
SELECT m.key FROM key_map AS m JOIN changed AS c ON c.key = m.canonical
UNION
SELECT b.key FROM key_map_before AS b JOIN changed AS c ON c.key = b.canonical;
-- Entities that these lead to, before or now.
CREATE OR REPLACE TEMP TABLE moved_entities AS FROM entities_of('moved_keys');
-- Where these keys are mentioned: no other passage states anything of them (tasks/raw_rows.py).
CREATE OR REPLACE TEMP TABLE mentioning_passages AS
SELECT passage_id, is_title FROM all_mentions SEMI JOIN moved_keys USING (key);
CREATE OR REPLACE TEMP VIEW placed_mentions AS
FROM keyed_mentions
WHERE passage_id IN (FROM changed_passages) OR key IN (SELECT key FROM moved_entities);

-- name: stated_relations
-- All that is stated by passages that state or stated a touched relation.

-- What changed passages state that they did not, or stated and do not, and what is stated anywhere of moved names.
CREATE OR REPLACE TEMP TABLE restated_relations AS
FROM differing_relations
UNION ALL
SELECT r.* FROM moved_relations AS r WHERE r.source_key IN (FROM moved_keys) OR r.target_key IN (FROM moved_keys);
-- Ids of the relations that these are now and were before, and of those of moved entities.
CREATE OR REPLACE TEMP TABLE touched_relations AS
WITH meant AS (
    SELECT coalesce(x.canonical, r.source_key) AS source, r.norm_relation, coalesce(y.canonical, r.target_key) AS target
    FROM restated_relations AS r
    LEFT JOIN key_map AS x ON x.key = r.source_key
    LEFT JOIN key_map AS y ON y.key = r.target_key
    UNION
    SELECT coalesce(x.canonical, r.source_key), r.norm_relation, coalesce(y.canonical, r.target_key)
    FROM restated_relations AS r
    LEFT JOIN key_map_before AS x ON x.key = r.source_key
    LEFT JOIN key_map_before AS y ON y.key = r.target_key
), ends AS (
    SELECT left(sha256('entity' || chr(10) || source), 32) AS source_id, norm_relation,
        left(sha256('entity' || chr(10) || target), 32) AS target_id
    FROM meant
)
SELECT left(sha256('relation' || chr(10) || source_id || chr(10) || norm_relation || chr(10) || target_id), 32)
    AS relation_id
FROM ends
UNION
SELECT relation_id FROM published.relations AS r SEMI JOIN moved_entities AS e ON e.entity_id = r.source_id
UNION
SELECT relation_id FROM published.relations AS r SEMI JOIN moved_entities AS e ON e.entity_id = r.target_id;
CREATE OR REPLACE TEMP VIEW stated_relations AS
FROM all_relations SEMI JOIN (
    SELECT passage_id FROM restated_relations
    UNION
    SELECT passage_id FROM published.relation_sources SEMI JOIN touched_relations USING (relation_id)
) USING (passage_id);

-- name: derived_relations
-- Touched relations; the others stay as they are.
CREATE OR REPLACE TEMP VIEW derived_relations AS FROM raw_relations SEMI JOIN touched_relations USING (relation_id);

-- name: stated
-- Propositions, or triples, whose text or names are touched, in all passages that state them.

-- Those that a changed passage states and did not, or the other way round.
CREATE OR REPLACE TEMP TABLE touched_texts AS SELECT DISTINCT proposition_id FROM differing_statements;
-- These, and those that name moved names.
CREATE OR REPLACE TEMP TABLE touched_names AS
FROM touched_texts
UNION
SELECT proposition_id
FROM (SELECT proposition_id, unnest(keys) AS key FROM moved_statements) SEMI JOIN moved_keys USING (key);
-- The passages that may say these: changed ones, and those that said them.
CREATE OR REPLACE TEMP TABLE adjacent_passages AS
FROM changed_passages
UNION
SELECT passage_id FROM passages_before SEMI JOIN touched_names USING (proposition_id);
CREATE OR REPLACE TEMP TABLE touched_statements AS FROM adjacent_statements SEMI JOIN touched_names USING (proposition_id);
CREATE OR REPLACE TEMP VIEW stated AS FROM touched_statements SEMI JOIN touched_texts USING (proposition_id);
CREATE OR REPLACE TEMP VIEW naming AS FROM touched_statements;

-- name: have_titles_changed
-- True if a changed passage has another title than before, or a title leads to another entity.
SELECT EXISTS (
    SELECT 1 FROM changed_passages AS c
    LEFT JOIN passages AS p USING (passage_id) LEFT JOIN published.passages AS b USING (passage_id)
    WHERE p.title IS DISTINCT FROM b.title
) OR EXISTS (SELECT 1 FROM mentioning_passages WHERE is_title);
