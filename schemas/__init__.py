"""Data models: messages, sessions, memories, payloads, tables, settings and errors."""
