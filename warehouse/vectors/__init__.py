"""LanceDB: vectors and full text, one database per index, versions pinned by tags."""
