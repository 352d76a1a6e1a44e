"""SQL that finds what a question asks for, and the log of questions."""
