"""From ranked passages to a short answer with its evidence.

Pure: receives texts, opens nothing, ranks no passages (worker/strategies do).
"""
