"""Maintenance that the clock or an operator runs over all data."""
