"""Commands that run its processes."""
