"""SQL that searches for a question, and the log of questions."""
