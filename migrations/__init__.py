"""Alembic's migrations; `REVISION` is the newest, which this program needs."""

from importlib.resources import files

_VERSIONS = files(__name__) / "versions"
REVISION = max(file.name.partition("_")[0] for file in _VERSIONS.iterdir() if file.name.endswith(".py"))
