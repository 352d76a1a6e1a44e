"""Telegram's exports and events, and what they share."""
