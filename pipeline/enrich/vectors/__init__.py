"""Vectors of messages, sessions and memories."""
