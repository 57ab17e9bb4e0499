"""A knowledge graph to entities and relations."""
