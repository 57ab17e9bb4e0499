"""Texts to term statistics."""
