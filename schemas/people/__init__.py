"""Users, their pages, and forgetting."""
