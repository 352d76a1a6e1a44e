"""Edits, deletions, forgetting, and the export that goes with them."""
