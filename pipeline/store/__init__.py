"""All SQL, in rooms by what it serves; every query is a named function with one sentence."""
