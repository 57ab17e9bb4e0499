// Statements on nodes: what the database holds of an index, writing and deleting. `$index` is data, never text.

// name: stored_documents
// Ids and recorded hashes of the documents of an index.
MATCH (n:Document) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n.row_hash AS hash;

// name: read_documents
// The documents of an index with all their properties.
MATCH (n:Document) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, properties(n) AS properties, null AS source, null AS target, null AS probe;

// name: write_documents
// Creates or replaces documents.
UNWIND $rows AS row
MERGE (n:Document {index: $index, id: row.id})
SET n = row.properties;

// name: delete_documents
// Deletes documents with all that is attached to them.
UNWIND $ids AS id
MATCH (n:Document {index: $index, id: id})
DETACH DELETE n;

// name: stored_paragraphs
// Ids and recorded hashes of the passages of an index.
MATCH (n:Paragraph) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n.row_hash AS hash;

// name: read_paragraphs
// The passages of an index with all their properties.
MATCH (n:Paragraph) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, properties(n) AS properties, null AS source, null AS target, null AS probe;

// name: write_paragraphs
// Creates or replaces passages.
UNWIND $rows AS row
MERGE (n:Paragraph {index: $index, id: row.id})
SET n = row.properties;

// name: delete_paragraphs
// Deletes passages with all that is attached to them.
UNWIND $ids AS id
MATCH (n:Paragraph {index: $index, id: id})
DETACH DELETE n;

// name: stored_entities
// Ids and recorded hashes of the entities of an index.
MATCH (n:Entity) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n.row_hash AS hash;

// name: read_entities
// The entities of an index with all their properties but the vector, of which one similarity is enough.
MATCH (n:Entity) WHERE n.index = $index AND n.id IS NOT NULL
RETURN n.id AS id, n {.*, embedding: null, labelled: $label IN labels(n)} AS properties, null AS source, null AS target,
       CASE WHEN n.embedding IS NULL THEN null
            WHEN size(n.embedding) <> size($probe) THEN -1.0
            ELSE vector.similarity.cosine(n.embedding, $probe) END AS probe;

// name: write_entities
// Creates or replaces entities, with their vectors where they have one.
UNWIND $rows AS row
MERGE (n:Entity {index: $index, id: row.id})
SET n = row.properties
SET n:$($label)
WITH n, row WHERE row.vector IS NOT NULL
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector);

// name: delete_entities
// Deletes entities with all that is attached to them.
UNWIND $ids AS id
MATCH (n:Entity {index: $index, id: id})
DETACH DELETE n;
