"""LanceDB: vectors and their texts, one database per index, versions pinned by tags."""
