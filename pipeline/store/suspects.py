"""SQL of arrivals and payloads that may have killed their process: rows of `jobs`, never due, that count tries."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from pipeline.store import jobs

# Never due, so that nobody claims them.
_KIND = "suspect"


def hold(
    connection: Connection, tenant_id: str, chat_id: str, token: int, seconds: float, *, anew: bool
) -> bool:
    """Begin the chat's lease, and with `anew` its attempts; False: the claim of this token is no longer ours."""
    found = connection.execute(
        text("""
            UPDATE jobs SET due_at = now() + make_interval(secs => :seconds),
                attempts = CASE WHEN :anew THEN 1 ELSE attempts END
            WHERE tenant_id = :tenant AND kind = 'ingest' AND key = :chat AND token = :token
                AND claimed IS NOT NULL
        """),
        {"tenant": tenant_id, "chat": chat_id, "token": token, "seconds": seconds, "anew": anew},
    )
    return found.rowcount == 1


def note(connection: Connection, tenant_id: str, suspect: str) -> int:
    """Count a try of this suspect alone, to be committed before it; how many there were, with this one."""
    return int(
        connection.execute(
            text("""
                INSERT INTO jobs (tenant_id, kind, key, due_at, attempts) VALUES (:tenant, :kind, :key, NULL, 1)
                ON CONFLICT (tenant_id, kind, key) DO UPDATE SET attempts = jobs.attempts + 1 RETURNING attempts
            """),
            {"tenant": tenant_id, "kind": _KIND, "key": suspect},
        ).scalar_one()
    )


def acquit(connection: Connection, tenant_id: str, suspect: str) -> None:
    """Forget the tries of a suspect."""
    jobs.drop(connection, tenant_id, [_KIND], [suspect])


def tries(connection: Connection, suspects: Sequence[str]) -> dict[str, int]:
    """How often each of these was tried alone by a process that then died."""
    rows = connection.execute(
        text("SELECT key, attempts FROM jobs WHERE kind = :kind AND key = ANY(:keys)"),
        {"kind": _KIND, "keys": list(suspects)},
    )
    return {str(key): int(attempts) for key, attempts in rows}
