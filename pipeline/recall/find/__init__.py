"""What may answer: from an `Ask` to candidates, sessions, memories and passages."""
