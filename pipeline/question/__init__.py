"""What a question asks for, from its words only."""
