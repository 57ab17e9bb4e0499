"""Propositions to the graph over them."""
