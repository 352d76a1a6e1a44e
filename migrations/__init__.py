"""Alembic's migrations, numbered in a fixed width, so that they compare as text."""

from importlib.resources import files

_NUMBERS = [
    file.name.partition("_")[0]
    for file in (files(__name__) / "versions").iterdir()
    if file.name.endswith(".py")
]
REVISION = max(_NUMBERS)
"""The newest, which this program needs."""
FIRST = min(_NUMBERS)
"""The first that was released; a database of an earlier one is of a version under development."""
