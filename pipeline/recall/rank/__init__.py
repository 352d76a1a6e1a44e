"""What answers best: scores with their parts, computed from values only (pure)."""
