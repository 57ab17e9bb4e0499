"""Evaluations: strategies run over a question file, what came out stored, two of what is stored compared.

Owns no metric (tasks/evaluation does), prints nothing and knows no Prefect.
"""
