"""Pack the chosen lines into the budget: the blocks of a context, its text, its explanation."""
