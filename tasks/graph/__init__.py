"""Tables to graph arrays."""
