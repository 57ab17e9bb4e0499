"""Published tables to the rows of a graph database."""
