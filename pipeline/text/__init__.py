"""What can be read off a text: pure functions."""
