"""How many passages an evaluation asks for; a module of its own, for the process that measures memory loads little."""

DEPTH = 100
"""MRR's depth (algorithms.md 6.2)."""
