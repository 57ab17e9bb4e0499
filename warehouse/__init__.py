"""The only room that touches the outside: files, databases, models."""
