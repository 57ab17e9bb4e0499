// Statements that read a graph that somebody else wrote. What Polyhop exported to the same database is left out: its nodes have
// the property row_hash, and its records the label PolyhopIndex.

// name: duplicate_ids
// An id that several nodes have, if there is one: they would become one node.
MATCH (n) WHERE n.row_hash IS NULL AND NOT n:PolyhopIndex
WITH [p IN $ids WHERE n[p] IS :: STRING NOT NULL OR n[p] IS :: INTEGER NOT NULL | toString(n[p])][0] AS id
WITH id, count(*) AS count WHERE id IS NOT NULL AND count > 1
RETURN id, count ORDER BY id LIMIT 1;

// name: nodes
// All nodes with their labels and properties.
MATCH (n) WHERE n.row_hash IS NULL AND NOT n:PolyhopIndex
RETURN elementId(n) AS element, labels(n) AS labels, properties(n) AS properties;

// name: relationships
// All relationships; `predicate` is the first of the wanted properties that is a text, else the type.
MATCH (a)-[r]->(b) WHERE a.row_hash IS NULL AND NOT a:PolyhopIndex AND b.row_hash IS NULL
RETURN
    coalesce(
        [p IN $ids WHERE a[p] IS :: STRING NOT NULL OR a[p] IS :: INTEGER NOT NULL | toString(a[p])][0], elementId(a)
    ) AS source,
    coalesce(
        [p IN $ids WHERE b[p] IS :: STRING NOT NULL OR b[p] IS :: INTEGER NOT NULL | toString(b[p])][0], elementId(b)
    ) AS target,
    coalesce([p IN $predicates WHERE r[p] IS :: STRING NOT NULL | r[p]][0], type(r)) AS predicate;
