"""bge-small-en-v1.5: model.onnx, tokenizer.json and 1_Pooling/config.json beside this file.

Imports nothing and loads nothing; Polyhop reads the files (polyhop/warehouse/models/encoder_kinds.py).
"""
