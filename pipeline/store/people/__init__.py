"""SQL of people, their senders' names, and keys."""
