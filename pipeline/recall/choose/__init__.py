"""Choose the lines of a context in order of worth, and give the reason for leaving out the rest (pure)."""
