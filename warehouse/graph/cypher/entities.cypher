// What a thin client reads of entities beside the activation. Source: algorithms.md 1.6.

// name: entities_by_name
// Keys of the named entities that bear a name: by folded key, or as exact matches write it.
MATCH (e:Entity {index: $index, folded_key: $folded}) WHERE e.is_named RETURN e.folded_key AS key
UNION
MATCH (e:Entity {index: $index, key: $name}) WHERE e.is_named RETURN e.folded_key AS key;

// name: described_entities
// Names, types and descriptions of entities by folded key.
UNWIND $keys AS key
MATCH (e:Entity {index: $index, folded_key: key})
RETURN key, e.name AS name, coalesce(e.type, '') AS type, coalesce(e.description, '') AS description;
