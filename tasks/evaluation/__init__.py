"""Judging answers and rankings against gold, and comparing strategies pairwise.

Pure: runs no strategy and reads no file (flows/evaluate.py and the command line do).
"""
