"""Models behind protocols."""
