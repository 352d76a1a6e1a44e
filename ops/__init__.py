"""The command line, and what it starts on this machine."""
