"""Ranking of hubs by their paths: path scores, the choice of hubs, levels from a topic, triples and passages."""
