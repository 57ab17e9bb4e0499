"""Raw names to entities, mentions, relations and propositions with ids."""
