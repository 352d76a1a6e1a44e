"""SQL of jobs whose object has changed, was deleted or is not to be remembered."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import column, run
from schemas.kinds import FENCED_BY_CHANGE, Kind

_DROP = text("DELETE FROM jobs WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys)")
_DROP_OLD = text("DELETE FROM jobs WHERE tenant_id = :tenant AND kind = :kind AND pending_since <= :until")
_CLEAR_ERRORS = text("""
    UPDATE jobs SET last_error = NULL
    WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys) AND last_error IS NOT NULL
""")
_FENCE = text("""
    WITH locked AS MATERIALIZED (
        SELECT kind, key FROM jobs
        WHERE tenant_id = :tenant AND kind = ANY(:kinds) AND key = ANY(:keys) AND claimed IS NOT NULL
        ORDER BY kind, key FOR UPDATE
    )
    UPDATE jobs w SET token = nextval('job_token'), claimed = NULL, attempts = 0, due_at = now()
    FROM locked WHERE w.tenant_id = :tenant AND w.kind = locked.kind AND w.key = locked.key
""")
_SWITCHED_OFF = text("""
    SELECT key FROM unnest(CAST(:keys AS text[])) AS key
    CROSS JOIN LATERAL (SELECT split_part(key, ':', 1) AS owner, split_part(key, ':', 2) AS id) part
    WHERE CASE owner
        WHEN 'message' THEN EXISTS (SELECT FROM messages m JOIN chats c USING (tenant_id, chat_id)
            WHERE m.id = CAST(part.id AS bigint) AND NOT c.memory)
        WHEN 'session' THEN NOT :memory OR EXISTS (SELECT FROM conversation_sessions s
            JOIN chats c USING (tenant_id, chat_id) WHERE s.id = CAST(part.id AS bigint) AND NOT c.memory)
        WHEN 'memory' THEN NOT :memory AND EXISTS (SELECT FROM memories m
            WHERE m.id = CAST(part.id AS uuid) AND m.document_id IS NULL) END
""")


def drop(connection: Connection, tenant_id: str, kinds: Iterable[Kind | str], keys: Iterable[str]) -> int:
    """Delete jobs whose object was deleted, so that results in flight are discarded; return how many."""
    return run(
        connection, _DROP, tenant=tenant_id, kinds=[str(kind) for kind in kinds], keys=list(keys)
    ).rowcount


def drop_old(connection: Connection, tenant_id: str, kind: Kind, until: datetime) -> None:
    """Delete a tenant's jobs of one kind that were pending at a time."""
    run(connection, _DROP_OLD, tenant=tenant_id, kind=str(kind), until=until)


def clear_errors(connection: Connection, tenant_id: str, keys: Iterable[str]) -> None:
    """Clear the errors of jobs whose object has changed: a model's error may quote its input."""
    run(connection, _CLEAR_ERRORS, **_of_changed(tenant_id, keys))


def fence(connection: Connection, tenant_id: str, keys: Iterable[str]) -> None:
    """Discard results in flight for changed objects, and make their jobs claimable at once."""
    run(connection, _FENCE, **_of_changed(tenant_id, keys))


def switched_off(connection: Connection, keys: Iterable[str], *, session_memory: bool) -> set[str]:
    """Return those of these `owner:id` whose chat's memory is off, or session memory (which documents need not)."""
    return set(column(connection, _SWITCHED_OFF, keys=list(keys), memory=session_memory))


def _of_changed(tenant_id: str, keys: Iterable[str]) -> dict[str, object]:
    return {"tenant": tenant_id, "kinds": [str(kind) for kind in FENCED_BY_CHANGE], "keys": list(keys)}
