"""all-MiniLM-L6-v2: model.onnx, tokenizer.json and MODEL_CARD.md beside this file.

Imports nothing and loads nothing; Polyhop reads the files (polyhop/warehouse/models/local_encoder.py).
"""
