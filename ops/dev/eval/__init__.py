"""Evaluations: how much of the evidence for an answer is found and shown."""
