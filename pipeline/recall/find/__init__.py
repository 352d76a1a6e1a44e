"""Find candidates, sessions, memories and passages for an `Ask`."""
