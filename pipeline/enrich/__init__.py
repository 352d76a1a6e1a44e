"""Data that workers derive from messages and sessions: summaries, vectors and facts."""
