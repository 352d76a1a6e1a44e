"""Summaries of sessions and weeks."""
