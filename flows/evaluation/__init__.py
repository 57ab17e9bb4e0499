"""Judging answers and rankings against gold, and comparing strategies pairwise."""
