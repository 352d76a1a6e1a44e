"""The text of a statement, read once: looking for its parameters takes as long as sending it."""

from functools import lru_cache

import sqlalchemy

text = lru_cache(maxsize=512)(sqlalchemy.text)
"""SQLAlchemy's, for texts that come again: constants, and those with a space's number written into them."""
