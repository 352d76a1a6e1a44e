"""Owners of learned memories, and the statements stored about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.store.memories import learned
from pipeline.store.people import identities
from schemas.memory.memories import MemoryScope


@dataclass(frozen=True, kw_only=True)
class FactOwner:
    """The subject of memories: a person, an agent, or a group chat."""

    scope: MemoryScope
    user_id: str | None = None
    agent_id: str | None = None
    # the group
    chat_id: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "FactOwner":
        """Return the owner of a stored memory."""
        chat_id = row.learned_in if row.scope == "organization" else None
        return cls(scope=row.scope, user_id=row.user_id, agent_id=row.agent_id, chat_id=chat_id)


def known(connection: Connection, owner: FactOwner) -> Sequence[Row[Any]]:
    """Return the statements that are stored about an owner."""
    if owner.user_id is not None:
        return learned.of_person(connection, identities.ids_of(connection, owner.user_id))
    if owner.agent_id is not None:
        return learned.of_agent(connection, owner.agent_id)
    return learned.of_group(connection, owner.chat_id or "")
