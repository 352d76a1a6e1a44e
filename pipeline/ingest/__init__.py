"""A message handed over gets its place in a session."""
