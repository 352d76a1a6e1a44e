"""Vector search: exact where a chat is small, by its index where it is large, and behind the walls in both."""

import random

import psycopg
import pytest
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store import vectors
from pipeline.store.connections.database import Database
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.search.vector_search import VectorHits
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT, also_partitioned
from tests.harness.refusals import as_owner
from tests.harness.search import build_index, indexes, scans, unit, write

MESSAGES, EXACT_UP_TO = 1000, 700


@pytest.fixture
def filled(
    database: Database, settings: Settings, postgres: EmbeddedPostgres, database_name: str
) -> Database:
    """A large chat, and a chat of the same name of another tenant, with the statistics that autovacuum makes."""
    rng = random.Random(1)
    for tenant, messages in ((TENANT, MESSAGES), ("another", 100)):
        made = [unit(rng) for _ in range(messages)]
        with database.tenant(tenant) as connection:
            space = vectors.active_space(connection)
            assert space is not None
            ids = write(connection, [["hello"]] * messages, tenant=tenant)
            rows = [(str(identity), b"", [vector]) for identity, vector in zip(ids, made, strict=True)]
            vectors.put(connection, tenant, "message", space.id or 0, rows)
    build_index(settings)
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        superuser.execute("VACUUM ANALYZE")
    return database


def search(
    database: Database, query: Vector, *, messages: int = MESSAGES, tenant: str = TENANT
) -> VectorHits:
    with database.tenant(tenant) as connection:
        space = vectors.active_space(connection)
        assert space is not None
        scope = Scope(chat_id="test:1", language="simple")
        found = vector_search.nearest(connection, scope, space, query, messages=messages, limit=20)
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    return found


@also_partitioned
def test_a_large_chat_is_searched_by_the_index_as_the_role_that_walls_hold(
    filled: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = unit(random.Random(2))
    exact = search(filled, query)
    used = scans(filled)
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", EXACT_UP_TO)
    by_index = search(filled, query)

    assert (exact.search, by_index.search) == ("exact", "hnsw")
    # the index is asked for more than are wanted: several chunks may be of one message
    assert (exact.compared, by_index.compared) == (MESSAGES, 2 * 20)
    assert len(by_index.cosines) == 20
    assert scans(filled) == used + 1
    assert len(set(exact.cosines) & set(by_index.cosines)) >= 15
    assert list(by_index.cosines.values()) == sorted(by_index.cosines.values(), reverse=True)
    # the mean is that of the whole chat, not of what the index brought
    assert by_index.mean_cosine == pytest.approx(exact.mean_cosine, abs=0.03)
    # and without an index exactly, which is said
    as_owner(settings, f"DROP INDEX {', '.join(indexes(filled))}")
    found = search(filled, query)
    assert (found.search, found.compared) == ("exact", MESSAGES)


@also_partitioned
def test_another_tenant_is_searched_exactly_while_it_is_small_and_finds_its_own_alone(
    filled: Database, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", 99)
    with filled.tenant("another") as connection:
        theirs = set(connection.scalars(text("SELECT id FROM messages")))
    query = unit(random.Random(3))
    # 100 of 1,100 are less than a tenth, and the index would mostly find what is not theirs; alone in a partition all
    small = search(filled, query, messages=100, tenant="another")
    assert (small.search, small.compared) == (("hnsw", 40) if partitions else ("exact", 100))
    # even there it passes over the others until it has enough
    large = search(filled, query, messages=MESSAGES, tenant="another")
    assert (large.search, len(large.cosines)) == ("hnsw", 20)
    assert set(small.cosines) | set(large.cosines) <= theirs
    assert search(filled, query, tenant="nobody").cosines == {}
