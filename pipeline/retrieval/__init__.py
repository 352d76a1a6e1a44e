"""A question becomes ranked messages, sessions and memories."""
