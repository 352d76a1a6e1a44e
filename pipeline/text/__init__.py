"""Analyse and shorten texts: pure functions."""
