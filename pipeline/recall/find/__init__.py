"""Find candidates, sessions, memories and passages for a `Request`."""
