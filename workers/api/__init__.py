"""The HTTP API: messages in, contexts out."""
