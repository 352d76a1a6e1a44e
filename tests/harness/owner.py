"""The owner of the tables."""

from contextlib import AbstractContextManager

from sqlalchemy import Engine

from ops.local import migrate
from schemas.settings import Settings


def owner_url(settings: Settings) -> str:
    assert settings.owner_database_url is not None
    return settings.owner_database_url.get_secret_value()


def owner_of(settings: Settings) -> AbstractContextManager[Engine]:
    """The owner of the tables."""
    return migrate.connected(owner_url(settings))
