"""The first schema's statements, which its migration runs: tables, and functions with their trigger."""
