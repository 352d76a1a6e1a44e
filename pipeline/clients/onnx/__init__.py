"""Embedding models in this process by ONNX Runtime: bundled ones, and exported folders."""
