"""What fits the budget: the blocks of a context, its text, its explanation."""
