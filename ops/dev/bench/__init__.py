"""Benchmarks, each on servers of its own."""
