"""The published files of all-MiniLM-L6-v2: model.safetensors, tokenizer.json and MODEL_CARD.md beside this file.

Imports nothing and loads nothing; Polyhop reads the files (polyhop/warehouse/models/local_encoder.py).
"""
