"""Facts that a session states."""
