"""What is handed over, and what comes back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

Time = datetime | float | str
"""With a time zone; a number is seconds or milliseconds since 1970, a text ISO 8601 with an offset."""
Role = Literal["user", "assistant", "system", "tool"]
Evidence = Literal["strong", "weak", "none"]
"""Whether what was found answers a question: probably, perhaps, or not."""


class Chat(TypedDict, total=False):
    """A chat's id with what else is known of it; what is left out stays as it was."""

    chat_id: Required[str]
    platform: str
    kind: Literal["group", "direct", "thread"]
    title: str
    time_zone: str
    language: str
    memory: bool


class Message(TypedDict, total=False):
    """A message of a chat."""

    sender_id: Required[str]
    content: Required[str]
    external_id: str
    """The platform's id; left out: a new one."""
    sent_at: Time
    """Left out: now."""
    sender_name: str
    role: Role
    reply_to: str | None
    thread: str | None
    position: int
    agent_id: str | None
    session_key: str
    closes_session: bool
    metadata: dict[str, Any]


class ModelMessage(TypedDict):
    """A message for a chat model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a bot puts before its model."""

    context_id: str
    text: str
    """The whole context as one text."""
    messages: list[ModelMessage]
    """The same for a chat model, the question last."""
    blocks: list[dict[str, Any]]
    """Its parts, with a reason for every line."""
    used_tokens: int
    evidence: Evidence | None
    """Whether what was found answers the question; null: it was not judged."""
    evidence_probability: float | None
    """The probability that it does."""
    degraded: list[str]
    """What could not be done."""
    answer: dict[str, Any]
    """All that the API answered."""

    @property
    def background(self) -> str:
        """The text without the question, to be put before a conversation that ends with it."""
        return "\n\n".join(block["text"] for block in self.blocks if block["kind"] != "question")


@dataclass(frozen=True)
class SetAside:
    """A request that the API refused, with its reason; it is in the buffer until it is dropped."""

    number: int
    method: str
    path: str
    body: bytes
    reason: str


class SearchResult(TypedDict):
    """What a search found: messages, or sessions with the modes `topic` and `contextual`."""

    mode: str
    hits: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    related: list[dict[str, Any]]
    evidence: Evidence | None
    evidence_probability: float | None
    degraded: list[str]


class Digest(TypedDict):
    """What somebody missed in a chat: as a `text` to read, and in parts."""

    since: str
    until: str
    messages: int
    text: str
    blocks: list[dict[str, Any]]
    joined: list[str]
    left: list[str]
    degraded: list[str]


class MemoryReceipt(TypedDict):
    """What became of a statement to remember."""

    outcome: str
    id: str | None


class UserPage(TypedDict):
    """A person, and what is known of them."""

    user_id: str
    senders: list[dict[str, Any]]
    current: list[dict[str, Any]]
    earlier: list[dict[str, Any]]


class Receipt(TypedDict):
    """A forgetting that has begun; `seen` is false if the id is unknown."""

    id: int
    seen: bool
    finished_at: str | None
