"""The models that Polyhop runs itself, and how their results are kept."""
