"""Jobs that are owed, fail and wait."""

from collections.abc import Sequence, Set

from sqlalchemy import text

from pipeline.jobs import runner
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from tests.conftest import POLICY, TENANT
from tests.waiting import rounds


def owe(database: Database, *keys: str, tenant: str = TENANT, kind: str = "embed") -> None:
    with database.tenant(tenant) as connection:
        connection.execute(
            text("INSERT INTO tenants (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING"), {"t": tenant}
        )
        jobs.enqueue(connection, tenant, kind, keys)


def rows(database: Database, key: str, tenant: str = TENANT) -> list[dict[str, object]]:
    with database.tenant(tenant) as connection:
        found = connection.execute(
            text("SELECT *, due_at <= now() AS due FROM jobs WHERE key = :key"), {"key": key}
        )
        return [dict(each._mapping) for each in found]


def row(database: Database, key: str, tenant: str = TENANT) -> dict[str, object]:
    (found,) = rows(database, key, tenant)
    return found


def pass_time(database: Database) -> None:
    """Let every lease and every delay run out."""
    with database.maintenance() as connection:
        connection.execute(text("UPDATE jobs SET due_at = now() - interval '1 s' WHERE due_at IS NOT NULL"))


def done(database: Database) -> runner.Handler:
    def handle(tenant: str, claims: Sequence[Claim]) -> Set[str]:
        with database.tenant(tenant) as connection:
            jobs.finish(connection, claims)
        return set()

    return handle


def failing(error: BaseException) -> runner.Handler:
    def handle(_tenant: str, _claims: Sequence[Claim]) -> Set[str]:
        raise error

    return handle


def kill(database: Database, kind: str) -> None:
    """Let everything owed of a kind fail until it is given up."""
    for _ in rounds("it is given up"):
        if not runner.run(database, kind, failing(ValueError("model fell over")), POLICY).claimed:
            break
        pass_time(database)
