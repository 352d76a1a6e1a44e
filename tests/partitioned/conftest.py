"""Databases whose messages were partitioned when they were there already: stories of elsewhere must hold on them."""

import itertools
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from migrations import partitioning
from ops.local.embedded.postgres import EmbeddedPostgres
from tests.conftest import copied

PARTITIONS = 4
_numbers = itertools.count(1)


def partition(owner_url: str, partitions: int = PARTITIONS) -> int:
    """Partition the messages of a database; how many there are."""
    engine = create_engine(owner_url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            return partitioning.partition(connection, partitions)
    finally:
        engine.dispose()


@pytest.fixture
def database_name(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    """In place of the ordinary one: what the story begins with, partitioned."""
    with copied(postgres, f"partitioned_{next(_numbers)}", template) as name:
        partition(postgres.dsn("owner", database=name))
        yield name
