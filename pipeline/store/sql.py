"""The text of a statement, read once: looking for its parameters takes as long as sending it."""

from functools import lru_cache

import sqlalchemy

text = lru_cache(maxsize=512)(sqlalchemy.text)
"""SQLAlchemy's, for statements of the paths that bots wait for; elsewhere the plain one does."""
