"""SQL of sessions and weeks."""
