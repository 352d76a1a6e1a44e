"""What data looks like: messages, sessions, memories, payloads, tables, settings and errors."""
