"""All SQL, by table group; every query is a named function with one sentence."""
