"""Scores of messages and sessions, from values only."""
