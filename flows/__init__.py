"""The stages in order, directly or as Prefect flows."""
