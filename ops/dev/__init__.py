"""Developers' tools: evaluations, benchmarks and chaos runs; the wheel leaves them out."""
