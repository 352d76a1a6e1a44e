"""The migration that this program needs: the newest one that it brings."""

from importlib.resources import files

_VERSIONS = files("migrations") / "versions"
REVISION = max(file.name.partition("_")[0] for file in _VERSIONS.iterdir() if file.name.endswith(".py"))
