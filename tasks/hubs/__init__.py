"""Hubs of a graph: which nodes are hubs, the paths that leave them, and the artefact that strategies read."""
