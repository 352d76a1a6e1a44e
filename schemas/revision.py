"""Which migration this program needs."""

REVISION = "0001"
"""A test holds it to the newest one in `migrations/versions`."""
