"""SQL of forgetting, retention and what must not come back."""
