"""Stories of the inspector."""
