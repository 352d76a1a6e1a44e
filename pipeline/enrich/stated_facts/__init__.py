"""Read the facts that people state explicitly, by rules: a file of rules for each language."""
