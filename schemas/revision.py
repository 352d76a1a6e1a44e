"""Which migration this program needs."""

REVISION = "0015"
"""A test holds it to the newest one in `migrations/versions`."""
