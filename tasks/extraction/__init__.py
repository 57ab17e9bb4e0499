"""Passages to names, relations and propositions."""
