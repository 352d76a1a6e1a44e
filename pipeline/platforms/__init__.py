"""Parsers of other platforms' exports, all pure: `formats` detects a file's format and names its parser.

A parser is a generator over opened lines, bytes or names that yields the values of `records`. It never raises because
of a file's content: what cannot be read is a `Broken` with its place and reason, and the parser goes on.
"""
