"""Parse a question: from its text to what it asks for, names and dates (pure but for the words of its chat)."""
