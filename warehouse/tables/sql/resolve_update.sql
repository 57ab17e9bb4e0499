-- Statements that find which rows of resolution's tables differ from those of the version before (`published`, attached).
-- What is derived again may be more than what differs, never less; raw rows are in the views all_mentions, all_relations,
-- all_propositions, all_triples, and those of the version before in the views whose names end in _before.

-- name: changed_passages
-- Passages that came, went, changed, or belong to another document.
CREATE OR REPLACE TEMP TABLE changed_passages AS
SELECT unnest($passages) AS passage_id
UNION
SELECT p.passage_id FROM passages AS p JOIN published.passages AS b USING (passage_id)
WHERE p.document_id <> b.document_id;

-- name: named_keys
-- Keys of names that changed passages mention, before or now.
CREATE OR REPLACE TEMP TABLE named_keys AS
SELECT key FROM all_mentions SEMI JOIN changed_passages USING (passage_id)
UNION
SELECT key FROM mentions_before SEMI JOIN changed_passages USING (passage_id);

-- name: named_before
-- All mentions of these names in the version before.
CREATE OR REPLACE TEMP TABLE resolved_mentions AS
SELECT *, key AS own_key FROM mentions_before SEMI JOIN named_keys USING (key);

-- name: named_now
-- All mentions of these names now.
CREATE OR REPLACE TEMP TABLE resolved_mentions AS
SELECT *, key AS own_key FROM all_mentions SEMI JOIN named_keys USING (key);

-- name: count_changed_names
-- Names that came, went, or have another spelling, type or number of mentions.
SELECT count(*) FROM ((FROM names_now EXCEPT FROM names_before) UNION ALL (FROM names_before EXCEPT FROM names_now));

-- name: key_map_before
-- Keys that were merged into another entity's.
CREATE OR REPLACE TEMP TABLE key_map_before AS
SELECT DISTINCT a.alias_key AS key, e.key AS canonical
FROM published.aliases AS a JOIN published.entities AS e USING (entity_id)
WHERE a.kind IN ('er', 'manual') AND NOT a.ambiguous AND a.alias_key <> e.key;

-- name: remapped_keys
-- Keys that lead to another entity's key than before.
CREATE OR REPLACE TEMP TABLE remapped_keys AS
SELECT key FROM (SELECT * FROM key_map WHERE key <> canonical) AS m FULL JOIN key_map_before AS b USING (key)
WHERE m.canonical IS DISTINCT FROM b.canonical;

-- name: changed_keys
-- Keys of names in changed passages, before or now, and remapped ones.
CREATE OR REPLACE TEMP TABLE changed_keys AS
FROM named_keys
UNION
SELECT unnest(keys) FROM all_propositions SEMI JOIN changed_passages USING (passage_id)
UNION
SELECT unnest(keys) FROM propositions_before SEMI JOIN changed_passages USING (passage_id)
UNION
FROM remapped_keys;

-- name: touched_entities
-- Keys of the entities that these names lead to, before or now.
CREATE OR REPLACE TEMP TABLE touched_entities AS
SELECT coalesce(m.canonical, k.key) AS key FROM changed_keys AS k LEFT JOIN key_map AS m USING (key)
UNION
SELECT coalesce(b.canonical, k.key) FROM changed_keys AS k LEFT JOIN key_map_before AS b USING (key);

-- name: keep_key_map
-- The same names are merged as before, each into the same entity.
INSERT INTO key_map
FROM key_map_before
UNION
SELECT canonical, canonical FROM key_map_before;

-- name: keep_decisions
-- The same decisions.
INSERT INTO decisions
SELECT a.alias_key, a.kind, a.scope, e.key, a.ambiguous, a.reason
FROM published.aliases AS a LEFT JOIN published.entities AS e USING (entity_id)
WHERE a.kind = 'er';

-- name: keyed_mentions_of_changes
-- Mentions in changed passages and of touched entities; `key` is the entity's, `own_key` the name's.
CREATE OR REPLACE TEMP TABLE keyed_mentions AS
SELECT m.* REPLACE (coalesce(k.canonical, m.key) AS key), m.key AS own_key
FROM all_mentions AS m LEFT JOIN key_map AS k ON k.key = m.key
WHERE coalesce(k.canonical, m.key) IN (FROM touched_entities) OR m.passage_id IN (FROM changed_passages);

-- name: resolved_mentions
-- Mentions of these entities.
CREATE OR REPLACE TEMP TABLE resolved_mentions AS FROM keyed_mentions SEMI JOIN touched_entities USING (key);

-- name: moved_keys
-- Keys that lead to another entity than before: remapped ones, and all whose entity came or went.
CREATE OR REPLACE TEMP TABLE moved_keys AS
WITH changed AS (
    SELECT key FROM entities ANTI JOIN published.entities AS b USING (key)
    UNION ALL
    SELECT key FROM published.entities ANTI JOIN entities AS e USING (key)
)
FROM remapped_keys
UNION
FROM changed
UNION
SELECT m.key FROM key_map AS m JOIN changed AS c ON c.key = m.canonical
UNION
SELECT b.key FROM key_map_before AS b JOIN changed AS c ON c.key = b.canonical;

-- name: moved_entities
-- The entities of these keys, before and now.
CREATE OR REPLACE TEMP TABLE moved_entities AS
WITH meant AS (
    SELECT coalesce(m.canonical, k.key) AS key FROM moved_keys AS k LEFT JOIN key_map AS m USING (key)
    UNION
    SELECT coalesce(b.canonical, k.key) FROM moved_keys AS k LEFT JOIN key_map_before AS b USING (key)
)
SELECT key, left(sha256('entity' || chr(10) || key), 32) AS entity_id FROM meant;

-- name: placed_mentions
-- Mentions in changed passages, or of entities whose names moved.
CREATE OR REPLACE TEMP TABLE placed_mentions AS
SELECT m.* FROM keyed_mentions AS m
WHERE m.passage_id IN (FROM changed_passages) OR m.key IN (SELECT key FROM moved_entities);

-- name: relations_of_changes
-- What changed passages state, and what is stated anywhere of moved names.
CREATE OR REPLACE TEMP TABLE stated_relations AS
SELECT r.* FROM all_relations AS r
WHERE r.passage_id IN (FROM changed_passages) OR r.source_key IN (FROM moved_keys) OR r.target_key IN (FROM moved_keys);

-- name: touched_relations
-- Relations that they state or stated.
CREATE OR REPLACE TEMP TABLE touched_relations AS
SELECT relation_id FROM raw_relations
UNION
SELECT relation_id FROM published.relation_sources SEMI JOIN changed_passages USING (passage_id)
UNION
SELECT relation_id FROM published.relations
WHERE source_id IN (SELECT entity_id FROM moved_entities) OR target_id IN (SELECT entity_id FROM moved_entities);

-- name: relations_beside
-- All that is stated by changed passages and by passages that state or stated such a relation, or of moved names.
CREATE OR REPLACE TEMP TABLE stated_relations AS
SELECT r.* FROM all_relations AS r
WHERE r.passage_id IN (
    FROM changed_passages UNION SELECT passage_id FROM published.relation_sources SEMI JOIN touched_relations
    USING (relation_id)
) OR r.source_key IN (FROM moved_keys) OR r.target_key IN (FROM moved_keys);

-- name: drop_other_relations
-- The others stay as they are.
DELETE FROM raw_relations WHERE relation_id NOT IN (FROM touched_relations);

-- name: touched_texts
-- Propositions of changed passages, before or now.
CREATE OR REPLACE TEMP TABLE touched_texts AS
SELECT proposition_id FROM stated_now SEMI JOIN changed_passages USING (passage_id)
UNION
SELECT proposition_id FROM stated_before SEMI JOIN changed_passages USING (passage_id);

-- name: stated
-- All that is said of these.
CREATE OR REPLACE TEMP TABLE stated AS FROM stated_now SEMI JOIN touched_texts USING (proposition_id);

-- name: touched_names
-- These, and those that name moved names.
CREATE OR REPLACE TEMP TABLE touched_names AS
FROM touched_texts
UNION
SELECT proposition_id FROM (SELECT proposition_id, unnest(keys) AS key FROM stated_now) SEMI JOIN moved_keys USING (key);

-- name: naming
-- All that is said of those.
CREATE OR REPLACE TEMP TABLE naming AS FROM stated_now SEMI JOIN touched_names USING (proposition_id);
