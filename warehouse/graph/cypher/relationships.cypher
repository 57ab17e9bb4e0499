// Statements on relationships. An index's relationships are those that leave its nodes; a missing id reads as ''.

// name: stored_document_paragraphs
// Ids and recorded hashes: which passages a document has.
MATCH (s:Document)-[r:HAS_PARAGRAPH]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_document_paragraphs
// With all properties and both ends: which passages a document has.
MATCH (s:Document)-[r:HAS_PARAGRAPH]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_document_paragraphs
// Creates or replaces: which passages a document has.
UNWIND $rows AS row
MATCH (s:Document {index: $index, id: row.source})
MATCH (t:Paragraph {index: $index, id: row.target})
MERGE (s)-[r:HAS_PARAGRAPH {id: row.id}]->(t)
SET r = row.properties;

// name: delete_document_paragraphs
// Deletes: which passages a document has.
MATCH (s:Document)-[r:HAS_PARAGRAPH]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_document_mentions
// Ids and recorded hashes: which entities a document mentions.
MATCH (s:Document)-[r:MENTIONS]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_document_mentions
// With all properties and both ends: which entities a document mentions.
MATCH (s:Document)-[r:MENTIONS]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_document_mentions
// Creates or replaces: which entities a document mentions.
UNWIND $rows AS row
MATCH (s:Document {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:MENTIONS {id: row.id}]->(t)
SET r = row.properties;

// name: delete_document_mentions
// Deletes: which entities a document mentions.
MATCH (s:Document)-[r:MENTIONS]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_paragraph_mentions
// Ids and recorded hashes: which entities a passage mentions.
MATCH (s:Paragraph)-[r:MENTIONS]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_paragraph_mentions
// With all properties and both ends: which entities a passage mentions.
MATCH (s:Paragraph)-[r:MENTIONS]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_paragraph_mentions
// Creates or replaces: which entities a passage mentions.
UNWIND $rows AS row
MATCH (s:Paragraph {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:MENTIONS {id: row.id}]->(t)
SET r = row.properties;

// name: delete_paragraph_mentions
// Deletes: which entities a passage mentions.
MATCH (s:Paragraph)-[r:MENTIONS]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;

// name: stored_relations
// Ids and recorded hashes: labelled relations between entities.
MATCH (s:Entity)-[r:RELATES_TO]->() WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, r.row_hash AS hash;

// name: read_relations
// With all properties and both ends: labelled relations between entities.
MATCH (s:Entity)-[r:RELATES_TO]->(t) WHERE s.index = $index AND s.id IS NOT NULL
RETURN coalesce(r.id, '') AS id, properties(r) AS properties, s.id AS source, t.id AS target, null AS probe;

// name: write_relations
// Creates or replaces: labelled relations between entities.
UNWIND $rows AS row
MATCH (s:Entity {index: $index, id: row.source})
MATCH (t:Entity {index: $index, id: row.target})
MERGE (s)-[r:RELATES_TO {id: row.id}]->(t)
SET r = row.properties;

// name: delete_relations
// Deletes: labelled relations between entities.
MATCH (s:Entity)-[r:RELATES_TO]->() WHERE s.index = $index AND s.id IS NOT NULL AND coalesce(r.id, '') IN $ids
DELETE r;
