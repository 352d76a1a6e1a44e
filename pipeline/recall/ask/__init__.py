"""What is asked for: from a question's words and its chat to an `Ask`."""
