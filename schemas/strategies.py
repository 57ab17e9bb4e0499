"""The strategy that is taken where none is named. All strategies: worker/strategies/registry.py."""

DEFAULT_STRATEGY = "bridge"
