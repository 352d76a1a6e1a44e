"""Memories as conversations would teach them, written by hand: with evidence, and with what supersedes them."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from sqlalchemy import text

from pipeline.memories.statements import new_id
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.facts import RULES
from tests.conftest import TENANT
from tests.harness.pipeline import embed_all, rows

_INSERT = """
    INSERT INTO memories (tenant_id, id, content_hash, {names}) VALUES (:tenant, :id, :hash, {values})
"""
_EVIDENCE = text("""
    INSERT INTO memory_evidence (tenant_id, memory_id, message_id, session_id, chat_id, sender_id, said_at, content,
        confidence, learned_by)
    SELECT m.tenant_id, x.id, m.id, 0, m.chat_id, m.sender_id, m.sent_at, x.content, 1, 'rules-v1'
    FROM messages m JOIN memories x ON x.id = :id WHERE m.chat_id || '/' || m.external_id = ANY(:messages)
""")
_SUPERSEDE = text("""
    INSERT INTO memory_supersessions (tenant_id, memory_id, superseded_by) VALUES (:tenant, :old, :new)
""")


def learned(
    database: Database,
    content: str,
    *,
    messages: Sequence[str] = (),
    supersedes: UUID | None = None,
    **fields: Any,
) -> UUID:
    """A learned memory of a user by default; `messages` say it, each as `chat/external id`."""
    given = {"scope": "user", "type": "fact", "importance": 5.0, "learned_by": RULES, **fields}
    identity = new_id()
    names = {"content": content, **given}
    statement = _INSERT.format(names=", ".join(names), values=", ".join(f":{name}" for name in names))
    owner = f"{content} {given.get('user_id')} {given.get('learned_in')}"
    digest = blake2b(owner.encode(), digest_size=16).digest()
    with database.tenant(TENANT) as connection:
        connection.execute(text(statement), {"tenant": TENANT, "id": identity, "hash": digest, **names})
        if supersedes is not None:
            connection.execute(_SUPERSEDE, {"tenant": TENANT, "old": supersedes, "new": identity})
        jobs.enqueue(connection, TENANT, "embed", [f"memory:{identity}"])
    evidence(database, identity, *messages)
    return identity


def evidence(database: Database, identity: UUID, *messages: str) -> None:
    """Let messages, each as `chat/external id`, say what a memory says."""
    with database.tenant(TENANT) as connection:
        connection.execute(_EVIDENCE, {"id": identity, "messages": list(messages)})


def change(database: Database, identity: UUID, **fields: object) -> None:
    assignments = ", ".join(f"{name} = :{name}" for name in fields)
    rows(database, f"UPDATE memories SET {assignments} WHERE id = :id", id=identity, **fields)


def embedded(database: Database) -> None:
    embed_all(database)


def day(month: int, number: int) -> datetime:
    return datetime.fromisoformat(f"2026-{month:02}-{number:02}T12:00:00+00:00")
