-- Statements that turn the parts of a graph into entities, relations and nodes. What several statements say of one node
-- is settled by how many say it, then by the text itself, so that the order of the file does not matter.

-- name: fill_relations
-- One relation per source, predicate as written, and target. Source: algorithms.md 7.5.
INSERT INTO relations
SELECT
    left(sha256('relation' || chr(10) || source_id || chr(10) || relation || chr(10) || target_id), 32),
    source_id,
    target_id,
    relation,
    any_value(norm_relation),
    sum(uses)::BIGINT,
    NULL,
    'graph'
FROM read_parquet($statements) GROUP BY source_id, relation, target_id ORDER BY 1;

-- name: names_of_nodes
-- The most preferred name of each node (in RDF that is one of a language), of those the one that most statements give;
-- ties to the smaller. `uses` is 0 where no statement names it.
CREATE OR REPLACE TEMP TABLE names_of_nodes AS
SELECT entity_id, name, any_value(folded) AS folded, any_value(norm_name) AS norm_name, sum(uses) AS uses
FROM read_parquet($nodes) GROUP BY entity_id, name, preference
QUALIFY row_number() OVER (PARTITION BY entity_id ORDER BY sum(uses) = 0, preference, sum(uses) DESC, name) = 1;

-- name: types_of_nodes
-- The type that most descriptions of each node begin with; ties to the smaller.
CREATE OR REPLACE TEMP TABLE types_of_nodes AS
SELECT entity_id, types[1] AS type
FROM read_parquet($nodes) WHERE len(types) > 0 GROUP BY entity_id, types[1]
QUALIFY row_number() OVER (PARTITION BY entity_id ORDER BY sum(uses) DESC, types[1]) = 1;

-- name: described_nodes
-- All types of each node that has a relation, and whether it is a literal: said to be one, or else without types and only
-- entered by a single relation; never if a relation leaves it. Source: algorithms.md 4.3.
CREATE OR REPLACE TEMP TABLE described_nodes AS
WITH entered AS (SELECT target_id AS entity_id, count(*) AS in_count FROM relations GROUP BY target_id),
related AS (SELECT source_id AS entity_id FROM relations UNION SELECT target_id FROM relations),
stated AS (
    SELECT entity_id, any_value(node_id) AS node_id, bool_or(is_literal) AS is_literal, min(datatype) AS datatype,
        min(language) AS language, list_sort(list_distinct(flatten(list(types)))) AS types
    FROM read_parquet($nodes) SEMI JOIN related USING (entity_id) GROUP BY entity_id
)
SELECT s.entity_id, s.node_id, s.datatype, s.language, s.types,
    coalesce(s.is_literal, len(s.types) = 0 AND e.in_count = 1)
        AND NOT EXISTS (FROM relations AS r WHERE r.source_id = s.entity_id) AS is_literal
FROM stated AS s LEFT JOIN entered AS e USING (entity_id);

-- name: fill_entities
-- One entity per node. A key is the folded name where only one node that is not a literal has it; after all others follow
-- ` #` and the node's own id, or ` =` and the entity id: no folded name contains either sign.
INSERT INTO entities
WITH named AS (
    SELECT d.entity_id, d.node_id, d.is_literal, t.type,
        CASE WHEN NOT d.is_literal OR n.uses > 0 THEN n.name ELSE '' END AS name,
        CASE WHEN NOT d.is_literal OR n.uses > 0 THEN n.folded ELSE '' END AS folded,
        CASE WHEN NOT d.is_literal OR n.uses > 0 THEN n.norm_name ELSE '' END AS norm_name
    FROM described_nodes AS d JOIN names_of_nodes AS n USING (entity_id) LEFT JOIN types_of_nodes AS t USING (entity_id)
),
shared AS (SELECT folded, count(*) AS nodes FROM named WHERE NOT is_literal GROUP BY folded)
SELECT
    a.entity_id,
    CASE
        WHEN NOT a.is_literal AND s.nodes = 1 AND a.folded <> '' THEN a.folded
        ELSE ltrim(a.folded || coalesce(' #' || a.node_id, ' =' || a.entity_id))
    END,
    a.name,
    a.norm_name,
    a.type,
    NULL,
    NOT a.is_literal,
    false,
    a.is_literal,
    false,
    '',
    sha256(''),
    0,
    0,
    0
FROM named AS a LEFT JOIN shared AS s USING (folded)
ORDER BY 1;

-- name: fill_nodes
-- What the graph itself says of each entity.
INSERT INTO nodes
SELECT entity_id, node_id, to_json(types)::VARCHAR, datatype, language FROM described_nodes ORDER BY entity_id;

-- name: count_records
-- Accepted and refused lines, and relations.
SELECT
    (SELECT coalesce(sum(good), 0)::BIGINT FROM read_parquet($lines)),
    (SELECT count(DISTINCT (source, line)) FROM read_parquet($quarantine)),
    (SELECT count(*) FROM relations);

-- name: some_bad_lines
-- Refused lines, for the message of a failed run.
SELECT source, line, reason FROM read_parquet($quarantine) ORDER BY source, line, reason LIMIT 10;

-- name: count_graph
-- Sizes of what was read.
SELECT
    (SELECT count(DISTINCT (source, line)) FROM quarantine),
    (SELECT count(*) FROM entities),
    (SELECT count(*) FROM entities WHERE is_literal),
    (SELECT count(*) FROM relations),
    (SELECT count(*) FROM relations WHERE source_id = target_id);

-- name: content_of_graph
-- Sizes and checksums of entities, relations and nodes.
SELECT
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(e::VARCHAR))), '') FROM entities AS e),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(r::VARCHAR))), '') FROM relations AS r),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(n::VARCHAR))), '') FROM nodes AS n);

-- name: content_of_the_rest
-- Sizes and checksums of the quarantine and of the links between nodes and passages.
SELECT
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(q::VARCHAR))), '') FROM quarantine AS q),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(l::VARCHAR))), '') FROM node_passages AS l);
