"""What deserves a place: lines in order of worth, with the reason for the rest (pure)."""
