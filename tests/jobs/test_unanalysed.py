"""A queue is as fast before Postgres has analysed it: in the first minute of an import it knows no statistics."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, TextClause, text

from pipeline.store import claims, jobs
from pipeline.store.database import Database
from tests.conftest import TENANT

DUE, TAKEN = 3000, 100


@pytest.fixture
def owed(database: Database) -> list[str]:
    """The keys of jobs that are due, in a table that was never analysed."""
    with database.tenant(TENANT) as connection:
        connection.execute(text("INSERT INTO tenants (tenant_id) VALUES (:t)"), {"t": TENANT})
        keys = [f"message:{number}" for number in range(DUE)]
        jobs.enqueue(connection, TENANT, "embed", keys, priority=jobs.LIVE)
    return keys


def removed(connection: Connection, statement: TextClause, **given: Any) -> int:
    """Rows that a statement looked at in vain."""

    def walk(plan: dict[str, Any]) -> Iterator[int]:
        for name in ("Rows Removed by Filter", "Rows Removed by Join Filter"):
            yield plan.get(name, 0) * plan["Actual Loops"]
        for inner in plan.get("Plans", ()):
            yield from walk(inner)

    ((explained,),) = connection.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"), given)
    return int(sum(walk(explained[0]["Plan"])))


def test_a_claim_looks_at_what_it_takes(database: Database, owed: list[str]) -> None:
    given = {"tenants": [TENANT] * TAKEN, "keys": owed[:TAKEN], "kind": "embed", "batch": TAKEN, "lease": 60}
    with database.maintenance() as connection:
        connection.execute(claims._PLANNED)
        assert removed(connection, claims._TAKE, **given) <= TAKEN
        connection.rollback()


def test_finishing_looks_at_what_it_finishes(database: Database, owed: list[str]) -> None:
    with database.tenant(TENANT) as connection:
        mine = owed[:TAKEN]
        connection.execute(
            text("UPDATE jobs SET claimed = wanted, token = 1 WHERE key = ANY(:k)"), {"k": mine}
        )
        given = {"tenant": TENANT, "kind": "embed", "keys": mine, "tokens": [1] * TAKEN, "again": None}
        assert removed(connection, jobs._FINISH, **given) <= 2 * TAKEN * TAKEN
        connection.rollback()
