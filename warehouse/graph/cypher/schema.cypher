// Statements on the schema and on the node that says which version of an index the database holds.

// name: documents_unique
// One document per index and id.
CREATE CONSTRAINT polyhop_document_id IF NOT EXISTS FOR (n:Document) REQUIRE (n.index, n.id) IS UNIQUE;

// name: paragraphs_unique
// One passage per index and id.
CREATE CONSTRAINT polyhop_paragraph_id IF NOT EXISTS FOR (n:Paragraph) REQUIRE (n.index, n.id) IS UNIQUE;

// name: entities_unique
// One entity per index and id.
CREATE CONSTRAINT polyhop_entity_id IF NOT EXISTS FOR (n:Entity) REQUIRE (n.index, n.id) IS UNIQUE;

// name: hubs_unique
// One hub per index and id.
CREATE CONSTRAINT polyhop_hub_id IF NOT EXISTS FOR (n:Hub) REQUIRE (n.index, n.id) IS UNIQUE;

// name: hub_paths_unique
// One hub path per index and id.
CREATE CONSTRAINT polyhop_hub_path_id IF NOT EXISTS FOR (n:HubPath) REQUIRE (n.index, n.id) IS UNIQUE;

// name: indexes_unique
// One record per index.
CREATE CONSTRAINT polyhop_index_name IF NOT EXISTS FOR (n:PolyhopIndex) REQUIRE n.name IS UNIQUE;

// name: entity_folded_keys
// Seeds are looked up by folded key.
CREATE INDEX polyhop_entity_folded_key IF NOT EXISTS FOR (n:Entity) ON (n.index, n.folded_key);

// name: entity_keys
// People look entities up by name.
CREATE INDEX polyhop_entity_key IF NOT EXISTS FOR (n:Entity) ON (n.index, n.key);

// name: document_titles
// People look documents up by title.
CREATE INDEX polyhop_document_title IF NOT EXISTS FOR (n:Document) ON (n.index, n.title);

// name: create_vector_index
// Searches the vectors of one index's entities; {label} is its label, hexadecimal by construction (no parameter may stand there).
CREATE VECTOR INDEX $name IF NOT EXISTS FOR (n:`{label}`) ON (n.embedding) OPTIONS $options;

// name: vector_index
// State and options of a vector index.
SHOW VECTOR INDEXES YIELD name, state, options WHERE name = $name RETURN state, options;

// name: drop_vector_index
// Forgets a vector index; the vectors stay.
DROP INDEX $name IF EXISTS;

// name: await_indexes
// Waits until every index answers.
CALL db.awaitIndexes($seconds);

// name: server_version
// Name and versions of the server.
CALL dbms.components() YIELD name, versions WHERE name = 'Neo4j Kernel' RETURN versions[0] AS version;

// name: server_edition
// Community or enterprise.
CALL dbms.components() YIELD name, edition WHERE name = 'Neo4j Kernel' RETURN edition;

// name: index_states
// Polyhop's own indexes, those of constraints included, and whether they serve.
SHOW INDEXES YIELD name, state WHERE name STARTS WITH 'polyhop' RETURN name, state;

// name: recorded
// What the database says it holds of an index.
MATCH (v:PolyhopIndex {name: $index}) RETURN properties(v) AS record;

// name: claim
// Makes this export the only one that may write an index; a killed one needs no clearing up.
MERGE (v:PolyhopIndex {name: $index})
SET v.complete = false, v.epoch = coalesce(v.epoch, 0) + 1
RETURN v.epoch AS epoch;

// name: hold
// Locks the record of an index for this transaction and returns who may write.
MATCH (v:PolyhopIndex {name: $index})
SET v.complete = false
WITH v
RETURN v.epoch AS epoch;

// name: record
// Says, last of all, which version the database now holds.
MATCH (v:PolyhopIndex {name: $index})
SET v += $record, v.complete = true;
