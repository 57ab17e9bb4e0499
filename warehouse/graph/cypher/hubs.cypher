// Statements on hubs, their paths and what these are attached to; only versions with hubs have any. A missing id reads as ''.

// name: stored_hubs
// Ids and recorded hashes of the hubs of an index.
MATCH (n:Hub) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n.row_hash AS hash;

// name: read_hubs
// The hubs of an index with all their properties.
MATCH (n:Hub) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, properties(n) AS properties, null AS source, null AS target, null AS probe;

// name: write_hubs
// Creates or replaces hubs.
UNWIND $rows AS row
MERGE (n:Hub {index: $index, id: row.id})
SET n = row.properties;

// name: delete_hubs
// Deletes hubs with all that is attached to them.
UNWIND $ids AS id
MATCH (n:Hub {index: $index, id: id})
DETACH DELETE n;

// name: stored_hub_paths
// Ids and recorded hashes of the paths of the hubs of an index.
MATCH (n:HubPath) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n.row_hash AS hash;

// name: read_hub_paths
// The paths of the hubs of an index with all their properties.
MATCH (n:HubPath) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, properties(n) AS properties, null AS source, null AS target, null AS probe;

// name: write_hub_paths
// Creates or replaces paths of the hubs.
UNWIND $rows AS row
MERGE (n:HubPath {index: $index, id: row.id})
SET n = row.properties;

// name: delete_hub_paths
// Deletes paths of the hubs with all that is attached to them.
UNWIND $ids AS id
MATCH (n:HubPath {index: $index, id: id})
DETACH DELETE n;

// name: stored_hub_entities
// Ids and recorded hashes: which entity a hub is.
MATCH (s:Hub)-[r:IS_ENTITY]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_hub_entities
// With all properties and both ends: which entity a hub is.
MATCH (s:Hub)-[r:IS_ENTITY]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_hub_entities
// Creates or replaces: which entity a hub is.
UNWIND $rows AS row
MATCH (s:Hub {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:IS_ENTITY {id: row.id}]->(t)
SET r = row.properties;

// name: delete_hub_entities
// Deletes: which entity a hub is.
MATCH (s:Hub)-[r:IS_ENTITY]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_paths_of_hubs
// Ids and recorded hashes: which paths a hub has.
MATCH (s:Hub)-[r:HAS_PATH]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_paths_of_hubs
// With all properties and both ends: which paths a hub has.
MATCH (s:Hub)-[r:HAS_PATH]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_paths_of_hubs
// Creates or replaces: which paths a hub has.
UNWIND $rows AS row
MATCH (s:Hub {index: $index, id: row.source})
MATCH (t:HubPath {index: $index, id: row.target})
MERGE (s)-[r:HAS_PATH {id: row.id}]->(t)
SET r = row.properties;

// name: delete_paths_of_hubs
// Deletes: which paths a hub has.
MATCH (s:Hub)-[r:HAS_PATH]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_hub_path_entities
// Ids and recorded hashes: which entities a hub path passes.
MATCH (s:HubPath)-[r:PASSES]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_hub_path_entities
// With all properties and both ends: which entities a hub path passes.
MATCH (s:HubPath)-[r:PASSES]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_hub_path_entities
// Creates or replaces: which entities a hub path passes.
UNWIND $rows AS row
MATCH (s:HubPath {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:PASSES {id: row.id}]->(t)
SET r = row.properties;

// name: delete_hub_path_entities
// Deletes: which entities a hub path passes.
MATCH (s:HubPath)-[r:PASSES]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_hub_candidates
// Ids and recorded hashes: where search goes on from a hub.
MATCH (s:Hub)-[r:HAS_CANDIDATE]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_hub_candidates
// With all properties and both ends: where search goes on from a hub.
MATCH (s:Hub)-[r:HAS_CANDIDATE]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_hub_candidates
// Creates or replaces: where search goes on from a hub.
UNWIND $rows AS row
MATCH (s:Hub {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:HAS_CANDIDATE {id: row.id}]->(t)
SET r = row.properties;

// name: delete_hub_candidates
// Deletes: where search goes on from a hub.
MATCH (s:Hub)-[r:HAS_CANDIDATE]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;
