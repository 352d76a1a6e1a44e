"""All SQL, in packages by purpose; every query is a named function with one sentence."""
