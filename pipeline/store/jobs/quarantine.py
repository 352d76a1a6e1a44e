"""SQL of suspects that may have killed their process, and of payloads that could not be accepted."""

import json
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, text

from pipeline.store.chats import chats
from pipeline.store.connections.statements import column, number, run
from pipeline.store.jobs import outdated

_COUNT_TRY = text("""
    INSERT INTO jobs (tenant_id, kind, key, due_at, attempts) VALUES (:tenant, :kind, :key, NULL, 1)
    ON CONFLICT (tenant_id, kind, key) DO UPDATE SET attempts = jobs.attempts + 1 RETURNING attempts
""")
# Never due, so that nobody claims them.
_KIND = "suspect"
_TRIES = text("SELECT key, attempts FROM jobs WHERE kind = :kind AND key = ANY(:keys)")
_KEEP_PAYLOAD = text("""
    INSERT INTO refused_payloads (tenant_id, key, payload, error, trace_id)
    VALUES (:tenant, :key, :payload, :error, :trace)
    ON CONFLICT (tenant_id, key) DO UPDATE SET error = excluded.error, trace_id = excluded.trace_id
""")
_READ_PAYLOAD = text("SELECT payload FROM refused_payloads WHERE key = :key")
_TAKE_PAYLOAD = text("DELETE FROM refused_payloads WHERE key = :key RETURNING payload, trace_id")


def count_try(connection: Connection, tenant_id: str, suspect: str) -> int:
    """Count an attempt at a suspect alone, to be committed before it; return the number of attempts."""
    return number(connection, _COUNT_TRY, tenant=tenant_id, kind=_KIND, key=suspect)


def clear_tries(connection: Connection, tenant_id: str, suspect: str) -> None:
    """Forget the tries of a suspect."""
    outdated.drop(connection, tenant_id, [_KIND], [suspect])


def tries(connection: Connection, suspects: Sequence[str]) -> dict[str, int]:
    """Return how often each suspect was tried alone by a process that then died."""
    return {str(key): int(attempts) for key, attempts in run(connection, _TRIES, kind=_KIND, keys=suspects)}


def keep_payload(
    connection: Connection, tenant_id: str, key: str, payload: str, error: str, trace_id: str | None
) -> None:
    """Keep a payload, JSON in ASCII, under its key; update the error of a known one."""
    chats.ensure_tenant(connection, tenant_id)
    run(connection, _KEEP_PAYLOAD, tenant=tenant_id, key=key, payload=payload, error=error, trace=trace_id)


def read_payload(connection: Connection, key: str) -> str | None:
    """Return a payload by its key."""
    return next(iter(column(connection, _READ_PAYLOAD, key=key)), None)


def take_payload(connection: Connection, key: str) -> tuple[str, str | None] | None:
    """Delete a payload; return `(payload, trace id)`, or None if it is gone."""
    row = run(connection, _TAKE_PAYLOAD, key=key).one_or_none()
    return None if row is None else (row.payload, row.trace_id)


def forget_payloads(connection: Connection, names: Sequence[Iterable[str]]) -> int:
    """Delete the payloads that contain an id of each group, or all without a group; return how many.

    An unreadable payload does not name its owner, so any mention counts.
    """
    held = " AND ".join(
        f"EXISTS (SELECT FROM unnest(CAST(:group{n} AS text[])) AS piece WHERE strpos(payload, piece) > 0)"
        for n in range(len(names))
    )
    pieces = {f"group{n}": [p for name in group for p in _as_json(name)] for n, group in enumerate(names)}
    return run(connection, text(f"DELETE FROM refused_payloads WHERE {held or 'true'}"), **pieces).rowcount


def _as_json(name: str) -> Iterator[str]:
    """Yield the forms in which a payload may contain an id."""
    yield json.dumps(name)
    if name.removeprefix("-").isdecimal():
        yield f": {name},"
        yield f": {name}}}"
