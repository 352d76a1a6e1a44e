"""What workers make of messages and sessions: summaries and vectors."""
