"""Analysis of a question before retrieval."""
