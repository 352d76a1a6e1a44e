"""Where a search looks and which messages it may find, as conditions of its statements."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.sql.elements import BindParameter


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where to look: one chat, all of it or one session key."""

    chat_id: str
    language: str
    session_key: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the parameters of the statements below."""
        return {"chat": self.chat_id, "key": self.session_key, "language": self.language}


IN_SCOPE = "chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_key = :key)"


class Inside(NamedTuple):
    """The range of one session."""

    session_key: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True)
class MessageFilter:
    """What a message must be like; None asks for nothing, and what is empty matches nothing."""

    sender_ids: Collection[str] | None = None
    agent_id: str | None = None
    session_key: str | None = None
    session: Inside | None = None
    roles: Collection[str] | None = None
    since: datetime | None = None
    # not included
    until: datetime | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether it lets every message through."""
        return self == MessageFilter()

    def conditions(self) -> str:
        """Return the SQL of what is asked for only, so that the planner sees which index serves."""
        return " AND ".join(["chat_id = :chat", *(sql for sql, _ in self._asked())])

    def given(self) -> dict[str, Any]:
        """Return the parameters of the conditions; `:chat` is the statement's own."""
        return {name: value for _, given in self._asked() for name, value in given.items()}

    def parameters(self) -> list[BindParameter[Any]]:
        """Return the parameters whose type SQLAlchemy must be told."""
        return [bindparam("f_metadata", type_=JSONB)] if self.metadata else []

    def _asked(self) -> list[tuple[str, dict[str, Any]]]:
        asked: list[tuple[str, dict[str, Any]]] = []
        if self.sender_ids is not None:
            asked.append(("sender_id = ANY(:f_senders)", {"f_senders": list(self.sender_ids)}))
        if self.agent_id is not None:
            asked.append(("agent_id = :f_agent", {"f_agent": self.agent_id}))
        if self.session_key is not None:
            asked.append(("session_key = :f_key", {"f_key": self.session_key}))
        if self.session is not None:
            inside = dict(zip(("f_thread", "f_start", "f_end"), self.session, strict=True))
            asked.append(("session_key = :f_thread AND sent_at BETWEEN :f_start AND :f_end", inside))
        if self.roles is not None:
            asked.append(("role = ANY(:f_roles)", {"f_roles": list(self.roles)}))
        if self.since is not None:
            asked.append(("sent_at >= :f_since", {"f_since": self.since}))
        if self.until is not None:
            asked.append(("sent_at < :f_until", {"f_until": self.until}))
        if self.metadata is not None:
            holds = ("metadata @> :f_metadata", {"f_metadata": dict(self.metadata)})
            asked.append(holds if self.metadata else ("false", {}))
        return asked
