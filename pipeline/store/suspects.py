"""SQL of arrivals that may have killed who placed them: rows of `jobs` that are owed to nobody and count tries."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from pipeline.store import jobs
from schemas.kinds import INGEST

# Never due, so that nobody claims them.
_KIND = "suspect"


def hold(connection: Connection, tenant_id: str, chat_id: str, token: int, seconds: float) -> bool:
    """Begin the chat's lease and attempts anew; False: the claim of this token is no longer ours."""
    found = connection.execute(
        text(f"""
            UPDATE jobs SET due_at = now() + make_interval(secs => :seconds), attempts = 1
            WHERE tenant_id = :tenant AND kind = '{INGEST}' AND key = :chat AND token = :token
                AND claimed IS NOT NULL
        """),
        {"tenant": tenant_id, "chat": chat_id, "token": token, "seconds": seconds},
    )
    return found.rowcount == 1


def note(connection: Connection, tenant_id: str, message_id: int) -> None:
    """Count a try of this arrival alone; to be committed before it."""
    connection.execute(
        text("""
            INSERT INTO jobs (tenant_id, kind, key, due_at, attempts) VALUES (:tenant, :kind, :key, NULL, 1)
            ON CONFLICT (tenant_id, kind, key) DO UPDATE SET attempts = jobs.attempts + 1
        """),
        {"tenant": tenant_id, "kind": _KIND, "key": f"message:{message_id}"},
    )


def acquit(connection: Connection, tenant_id: str, message_id: int) -> None:
    """Forget the tries of an arrival."""
    jobs.drop(connection, tenant_id, [_KIND], [f"message:{message_id}"])


def tries(connection: Connection, message_ids: Sequence[int]) -> dict[int, int]:
    """How often each of these arrivals was tried alone by a process that then died."""
    rows = connection.execute(
        text("SELECT key, attempts FROM jobs WHERE kind = :kind AND key = ANY(:keys)"),
        {"kind": _KIND, "keys": [f"message:{each}" for each in message_ids]},
    )
    return {int(key.removeprefix("message:")): int(attempts) for key, attempts in rows}
