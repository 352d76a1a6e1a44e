"""The scope of a search and the filter of its messages, as conditions of its statements."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The scope of a search: a whole chat, or one session key in it."""

    chat_id: str
    language: str
    session_key: str | None = None
    # the asker's affinity to those who speak there, by name
    affinities: Mapping[str, float] = field(default_factory=dict)
    # the number of messages, and the mean number of their distinct lexemes
    messages: int = 0
    mean_size: float = 0.0
    # whether the chat's vectors are found by their index
    indexed: bool = False

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a statement that searches it."""
        return {"chat": self.chat_id, "key": self.session_key, "language": self.language}


def affinity_of(participants: str) -> str:
    """Return SQL of the asker's mean affinity to those who spoke in a session, 1 at most."""
    return f"""(SELECT coalesce(least(avg(coalesce(CAST(CAST(:affinities AS jsonb) -> name AS float8), 0)), 1), 0)
                FROM unnest({participants}) AS name)"""


class Inside(NamedTuple):
    """The range of one session."""

    session_key: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True)
class MessageFilter:
    """Filters of messages; None sets no filter, and an empty one matches nothing."""

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
    def is_open_before(self) -> bool:
        """Tell whether it lets every message before `until` through."""
        return replace(self, until=None) == MessageFilter()

    @property
    def is_open(self) -> bool:
        """Tell whether it lets every message through."""
        return self == MessageFilter()

    def conditions(self) -> str:
        """Return SQL of the filters that are set only, so that the planner sees which index serves."""
        nothing = ["false"] if self.metadata is not None and not self.metadata else []
        return " AND ".join(["chat_id = :chat", *(_CONDITIONS[name] for name in self._chosen()), *nothing])

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the conditions; `:chat` is the statement's own."""
        inside = zip(("f_thread", "f_start", "f_end"), self.session or (), strict=False)
        return {f"f_{name}": value for name, value in self._chosen().items() if name != "session"} | dict(
            inside
        )

    def _chosen(self) -> dict[str, Any]:
        return {name: value for name in _CONDITIONS if (value := getattr(self, name)) is not None}


_CONDITIONS = {
    "sender_ids": "sender_id = ANY(:f_sender_ids)",
    "agent_id": "agent_id = :f_agent_id",
    "session_key": "session_key = :f_session_key",
    "session": "session_key = :f_thread AND sent_at BETWEEN :f_start AND :f_end",
    "roles": "role = ANY(:f_roles)",
    "since": "sent_at >= :f_since",
    "until": "sent_at < :f_until",
    "metadata": "metadata @> :f_metadata",
}
