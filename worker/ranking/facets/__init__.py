"""Facets of questions about hubs: hub paths ranked by words, by linked values and by the conditions they meet."""
