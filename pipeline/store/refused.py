"""SQL of payloads from the queue that could not be accepted, kept as they came."""

import json
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, text

from pipeline.store import tenants


def keep(
    connection: Connection, tenant_id: str, key: str, payload: str, error: str, trace_id: str | None
) -> None:
    """Keep a payload, JSON in ASCII, under its key; of one that is there already, keep the newest error."""
    tenants.ensure(connection, tenant_id)
    connection.execute(
        text("""
            INSERT INTO refused_payloads (tenant_id, key, payload, error, trace_id)
            VALUES (:tenant, :key, :payload, :error, :trace)
            ON CONFLICT (tenant_id, key) DO UPDATE SET error = excluded.error, trace_id = excluded.trace_id
        """),
        {"tenant": tenant_id, "key": key, "payload": payload, "error": error, "trace": trace_id},
    )


def read(connection: Connection, key: str) -> str | None:
    """A payload by its key."""
    found: str | None = connection.scalar(
        text("SELECT payload FROM refused_payloads WHERE key = :key"), {"key": key}
    )
    return found


def take(connection: Connection, key: str) -> tuple[str, str | None] | None:
    """Delete a payload; `(payload, trace id)`, or None if it is gone."""
    row = connection.execute(
        text("DELETE FROM refused_payloads WHERE key = :key RETURNING payload, trace_id"), {"key": key}
    ).one_or_none()
    return None if row is None else (row.payload, row.trace_id)


def forget(connection: Connection, names: Sequence[Iterable[str]]) -> int:
    """Delete the payloads that hold one of each of these groups of ids, without any group all; how many they were.

    A payload that could not be read says nothing of whose it is, so that any mention counts.
    """
    held = " AND ".join(
        f"EXISTS (SELECT FROM unnest(CAST(:group{n} AS text[])) AS piece WHERE strpos(payload, piece) > 0)"
        for n in range(len(names))
    )
    pieces = {f"group{n}": [p for name in group for p in _as_json(name)] for n, group in enumerate(names)}
    return connection.execute(text(f"DELETE FROM refused_payloads WHERE {held or 'true'}"), pieces).rowcount


def _as_json(name: str) -> Iterator[str]:
    """An id as it may be written in a payload."""
    yield json.dumps(name)
    if name.removeprefix("-").isdecimal():
        yield f": {name},"
        yield f": {name}}}"
