"""SQL of forgetting, retention and the suppression list."""
