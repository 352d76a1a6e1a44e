"""Rank candidates: compute scores with their parts from values only (pure)."""
