"""Data models: messages, sessions, memories, payloads, settings and errors."""
