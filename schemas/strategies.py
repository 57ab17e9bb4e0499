"""The strategy that is taken where none is named. All strategies: worker/strategies/registry.py."""

DEFAULT_STRATEGY = "bridge"
CLOSED_BOOK = "closed-book"
"""The row of an evaluation that is not a strategy: a model answers without passages."""
