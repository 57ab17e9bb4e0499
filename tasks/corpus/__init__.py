"""Ingestion: records to passages, their tables, and the stage that writes them."""
