"""Texts to vectors, through the cache."""
