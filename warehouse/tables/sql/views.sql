-- Views of a published version that answer the usual questions.

-- name: passages_of_entity
-- Passages that mention an entity: WHERE entity = 'Marie Curie'.
CREATE OR REPLACE VIEW passages_of_entity AS
SELECT e.name AS entity, e.key AS entity_key, p.passage_id, p.title, m.tf, m.is_title, p.text
FROM entities AS e
JOIN mentions AS m ON m.entity_id = e.entity_id AND m.level = 'passage'
JOIN passages AS p ON p.passage_id = m.unit_id;

-- name: entities_of_passage
-- Entities that a passage mentions: WHERE passage_id = 'p1'.
CREATE OR REPLACE VIEW entities_of_passage AS
SELECT m.unit_id AS passage_id, e.name AS entity, e.type, m.tf, m.is_title, e.df
FROM mentions AS m JOIN entities AS e USING (entity_id) WHERE m.level = 'passage';

-- name: document_mentions
-- Entities of whole documents.
CREATE OR REPLACE VIEW document_mentions AS
SELECT p.document_id, m.entity_id, sum(m.tf) AS tf, count(*) AS passage_count
FROM mentions AS m JOIN passages AS p ON p.passage_id = m.unit_id
WHERE m.level = 'passage' GROUP BY p.document_id, m.entity_id;

-- name: neighbours
-- Relations of an entity in both directions: WHERE entity = 'Marie Curie'.
CREATE OR REPLACE VIEW neighbours AS
SELECT s.name AS entity, 'out' AS direction, r.relation, t.name AS neighbour, r.count, r.relation_id
FROM relations AS r JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id
UNION ALL
SELECT t.name, 'in', r.relation, s.name, r.count, r.relation_id
FROM relations AS r JOIN entities AS s ON s.entity_id = r.source_id JOIN entities AS t ON t.entity_id = r.target_id;

-- name: relation_provenance
-- The passages that state a relation.
CREATE OR REPLACE VIEW relation_provenance AS
SELECT s.name AS source, r.relation, t.name AS target, p.passage_id, p.title, p.text, r.extractor
FROM relations AS r
JOIN entities AS s ON s.entity_id = r.source_id
JOIN entities AS t ON t.entity_id = r.target_id
JOIN relation_sources AS x USING (relation_id)
JOIN passages AS p USING (passage_id);

-- name: stages
-- What each stage of the version counted.
CREATE OR REPLACE VIEW stages AS
SELECT r.stage, c.key AS what, c.value::BIGINT AS "count"
FROM version_stages AS r, json_each(r.counts_json) AS c;
