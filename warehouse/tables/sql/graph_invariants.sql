-- Laws of entities and relations that a knowledge graph states, besides those of entity_invariants.sql; publishing checks them.
-- Each statement returns the offending rows' count and one example.

-- name: entity_without_relation
-- Entities that no statement is about.
SELECT count(*), min(e.entity_id) FROM entities AS e
WHERE NOT EXISTS (FROM relations AS r WHERE r.source_id = e.entity_id)
  AND NOT EXISTS (FROM relations AS r WHERE r.target_id = e.entity_id);

-- name: relation_of_literal
-- Edges that leave a value.
SELECT count(*), min(r.relation_id) FROM relations AS r JOIN entities AS e ON e.entity_id = r.source_id
WHERE e.is_literal;

-- name: entity_without_node
-- Entities that are no node of the graph.
SELECT count(*), min(e.entity_id) FROM entities AS e ANTI JOIN nodes AS n USING (entity_id);

-- name: node_without_entity
-- Nodes of the graph that are no entity.
SELECT count(*), min(n.entity_id) FROM nodes AS n ANTI JOIN entities AS e USING (entity_id);

-- name: node_passage_without_entity
-- Texts of nodes that do not exist.
SELECT count(*), min(l.entity_id) FROM node_passages AS l ANTI JOIN entities AS e USING (entity_id);

-- name: node_passage_without_passage
-- Links to passages that do not exist.
SELECT count(*), min(l.passage_id) FROM node_passages AS l ANTI JOIN passages AS p USING (passage_id);

-- name: passage_without_node
-- Passages that belong to no node.
SELECT count(*), min(p.passage_id) FROM passages AS p ANTI JOIN node_passages AS l USING (passage_id);

-- name: relation_with_source
-- Relations of a graph that a passage is said to state.
SELECT count(*), min(relation_id) FROM relation_sources;
