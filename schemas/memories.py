"""Memories and documents: durable statements in a scope, their changes, and texts that are cited by id."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from schemas.base import Closed, Frozen, at_most, at_most_bytes, depending_on
from schemas.languages import DEFAULT_LANGUAGE
from schemas.messages import (
    MAX_ID_CHARS,
    NOT_BLANK,
    Content,
    Id,
    IdOrEmpty,
    Language,
    Metadata,
    QueryText,
    SaidAt,
    Time,
    written,
)

EvidenceLevel = Literal["strong", "weak", "none"]
"""Whether what was found answers a question: probably, perhaps, or not."""
_MEANINGS: Mapping[EvidenceLevel, str] = {
    "strong": "what was found probably answers it",
    "weak": "only loosely related",
    "none": "nothing was found that answers it",
}


def certainty(level: EvidenceLevel | None, probability: float | None = None) -> str:
    """Say in one line how sure an answer is; empty if it was not judged.

    >>> certainty("weak", 0.381)
    'Evidence: weak (38 %): only loosely related'
    """
    if level is None:
        return ""
    share = "" if probability is None else f" ({100 * probability:.0f} %)"
    return f"Evidence: {level}{share}: {_MEANINGS[level]}"


MemoryScope = Literal["session", "user", "agent", "organization"]
MemoryType = Literal[
    "fact",
    "preference",
    "goal",
    "event",
    "relation",
    "decision",
    "summary",
    "qa_turn",
    "learning",
    "state",
    "persona",
    "scratchpad",
    "document",
    "manual",
]
VisibilityPolicy = Literal["strict", "tenant", "chat"]
"""Who sees what was learned in another chat: those who were all there, everybody, or nobody."""
MANUAL_IMPORTANCE = 5.0
"""The importance of memories written by hand."""
PAGE = 100
MAX_PAGE = 500
MAX_FOUND = 100
"""Memories that one search finds at most."""
MAX_TYPES = len(get_args(MemoryType))
_OWNER = {"session": ["session_id"], "user": ["user_id"], "agent": ["agent_id"]}
_REFUSED = {"agent": ["user_id"], "organization": ["user_id"]}


def require_ids(
    memory: Closed,
    scope: MemoryScope,
    needed: Mapping[str, Sequence[str]],
    refused: Mapping[str, Sequence[str]],
) -> None:
    """Raise `ValueError` where a memory of a scope lacks an id or has one too many."""
    for name in needed.get(scope, ()):
        if getattr(memory, name) is None:
            raise ValueError(f"a memory of the scope {scope} needs {name}")
    for name in refused.get(scope, ()):
        if getattr(memory, name) is not None:
            raise ValueError(f"a memory of the scope {scope} has no {name}")


class MemoryIn(Closed):
    """A statement to remember."""

    model_config = ConfigDict(json_schema_extra=depending_on("scope", needed=_OWNER, refused=_REFUSED))

    scope: MemoryScope
    type: MemoryType = "fact"
    content: Annotated[Content, NOT_BLANK]
    learned_in: Id | None = None
    """The chat where it was learned: it is shown only in chats whose members were all in that one."""
    session_id: int | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    importance: Annotated[float, Field(ge=0, le=10)] = 1.0
    """0 to 10; 5 by default for the type `manual`, 1 for others."""
    said_at: SaidAt | None = None
    """When it was said or learned. Null: now. Nothing said before it was forgotten is stored again."""
    expires_at: Time | None = None
    source: Annotated[str, Field(max_length=MAX_ID_CHARS)] = ""
    document_id: Id | None = None
    chunk_index: Annotated[int, Field(ge=0)] | None = None
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _owned(self) -> "MemoryIn":
        require_ids(self, self.scope, _OWNER, _REFUSED)
        return self


class MemoryPayload(MemoryIn):
    """A statement written by hand: the body of `POST /v1/memories`."""

    v: Literal[1] = 1
    type: MemoryType = "manual"

    @model_validator(mode="before")
    @classmethod
    def _by_hand(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type", "manual") == "manual":
            return {"importance": MANUAL_IMPORTANCE, **value}
        return value


class MemoryFilter(Closed):
    """A page of memories: the parameters of `GET /v1/memories`."""

    scope: MemoryScope | None = None
    user_id: Id | None = None
    """Only memories of this user, by any of their ids."""
    agent_id: Id | None = None
    chat_id: Id | None = None
    """Only memories that may be shown in this chat."""
    type: MemoryType | None = None
    source: IdOrEmpty | None = None
    as_of: Time | None = None
    """What was believed at this time. Null: what is believed now."""
    superseded: bool = False
    """Whether memories are listed, too, that a newer one has superseded or that are known to be wrong."""
    after: UUID | None = None
    """The last `id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class Memory(Frozen):
    """A stored memory."""

    id: UUID
    scope: MemoryScope
    type: MemoryType
    content: str
    user_id: str | None
    agent_id: str | None
    session_id: int | None
    learned_in: str | None
    importance: float
    access_count: int
    last_accessed_at: datetime | None
    expires_at: datetime | None
    subject: str
    """The name of whom it is about, as the chat has it; empty for the organization and where nobody is named."""
    attribute: str
    """What it says something about, such as `home`: a newer one with the same attribute supersedes it."""
    value: str
    confidence: float
    """0 to 1; grows when it is said again."""
    said_at: datetime | None
    """When it was said first; null: when it was written."""
    holds_from: datetime | None
    holds_until: datetime | None
    learned_by: str
    """The model or the rules that learned it from a conversation; empty: written by hand or by a bot."""
    retracted_at: datetime | None
    """Since when it is known to be wrong; null: it is not."""
    superseded_at: datetime | None = None
    """Since when a newer one holds in its place; null: none does."""
    superseded_by: UUID | None = None
    source: str
    document_id: str | None
    chunk_index: int | None
    metadata: dict[str, Any]
    created_at: datetime


class MemoryQuery(Closed):
    """What to look for among the memories: the body of `POST /v1/memories/search`.

    Without `chat_id` all of the tenant are searched. An empty filter (`"types": []`) matches nothing.
    """

    query: QueryText
    chat_id: Id | None = None
    """Only memories that may be shown in this chat, to `user_id` if given."""
    scope: MemoryScope | None = None
    user_id: Id | None = None
    """Only memories of this user, by any of their ids."""
    agent_id: Id | None = None
    types: Annotated[list[MemoryType], at_most(MAX_TYPES), Field(max_length=MAX_TYPES)] | None = None
    source: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    metadata: dict[str, Any] | None = None
    """Only memories whose metadata contains this, such as `{"topic": "boiler"}`."""
    min_importance: Annotated[float, Field(ge=0, le=10)] | None = None
    as_of: Time | None = None
    """What was believed at this time. Null: what is believed now."""
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 10
    fill: bool = False
    """Also return what hardly answers the query."""


class MemoryHit(Frozen):
    """A memory that was found."""

    rank: int
    score: float
    """The product of the components: the probability that it answers the query, `relevance`, times all others."""
    components: dict[str, float]
    """Parts of the score by name."""
    arms: dict[str, int]
    """The rank, from 1, by each arm on its own: `keywords`, `vectors`."""
    memory: Memory


class MemoryResult(Frozen):
    """The result of a search for memories."""

    hits: list[MemoryHit]
    """Best first."""
    evidence: EvidenceLevel = "none"
    """Whether the best of them answers the query: probably, perhaps, or not; never not where something is degraded."""
    evidence_probability: float | None = None
    """How probable it is that the best of them answers; null: nothing was found."""
    degraded: list[str] = Field(default_factory=list)
    """What could not be done, as in a context."""


SCOPES: tuple[MemoryScope, ...] = ("session", "user", "agent", "organization")
"""From the narrowest to the widest."""
_CHANGE_OWNER = {"user": ["user_id"], "agent": ["agent_id"]}
_CHANGE_REFUSED = {"user": ["agent_id"], "agent": ["user_id"], "organization": ["user_id", "agent_id"]}


class MemoryEdit(Closed):
    """Changes of a memory, what is left out stays: the body of `PATCH /v1/memories/{memory_id}`."""

    v: Literal[1] = 1
    content: Annotated[Content, NOT_BLANK] | None = None
    """New words. What is learned later does not change them."""
    importance: Annotated[float, Field(ge=0, le=10)] | None = None
    expires_at: Time | None = None
    """Null: never."""
    metadata: Metadata | None = None
    """Keys to set; a key that is null is removed."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        fields = self.model_fields_set - {"v"}
        if not fields:
            raise ValueError("give at least one of content, importance, expires_at and metadata")
        for name in fields - {"expires_at"}:
            if getattr(self, name) is None:
                raise ValueError(f"{name} cannot be null: leave it out to keep it")
        return self


class MemoryPromotion(Closed):
    """A wider scope for a memory: the body of `POST /v1/memories/{memory_id}/promote`."""

    model_config = ConfigDict(
        json_schema_extra=depending_on("scope", needed=_CHANGE_OWNER, refused=_CHANGE_REFUSED)
    )

    v: Literal[1] = 1
    scope: Literal["user", "agent", "organization"]
    user_id: Id | None = None
    agent_id: Id | None = None

    @model_validator(mode="after")
    def _owned(self) -> Self:
        require_ids(self, self.scope, _CHANGE_OWNER, _CHANGE_REFUSED)
        return self


class MemoryCorrection(Closed):
    """What is wrong about a memory: the body of `POST /v1/memories/{memory_id}/correct`."""

    v: Literal[1] = 1
    content: Annotated[Content, NOT_BLANK] | None = None
    """The right statement, which supersedes the memory. Null: it is wrong, and nothing takes its place."""
    said_at: SaidAt | None = None
    """When that was said, after the memory itself. Null: now."""
    chat_id: Id | None = None
    """The chat where the right statement was said: it is shown, and supersedes, where what was said there may be
    shown. Null: wherever the memory is shown."""

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.content is None and self.chat_id is not None:
            raise ValueError(
                "chat_id is where content was said: without content a memory is wrong everywhere"
            )
        return self


class MemoryReceipt(Frozen):
    """The result of writing, changing or deleting a memory."""

    outcome: Literal["new", "known", "kept_out", "edited", "promoted", "corrected", "retracted", "deleted"]
    """`known`: the same memory exists; `kept_out`: memory is off, or its subject was forgotten; `corrected`: the
    memory `id` has taken its place; `retracted`: it is history, and nothing has."""
    id: UUID | None
    """Null: it was not stored."""
    request_id: str


MAX_DOCUMENT_BYTES = 1024 * 1024
"""The chapters of a longer text make better documents."""


class DocumentIn(Closed):
    """A document to store: the body of `POST /v1/documents`."""

    v: Literal[1] = 1
    document_id: Id
    """The id by which the document is cited and replaced."""
    content: Annotated[
        str, BeforeValidator(written), NOT_BLANK, at_most_bytes(MAX_DOCUMENT_BYTES, ": divide it")
    ]
    """Plain text or Markdown."""
    source: IdOrEmpty = ""
    """The origin, such as a path or a URL."""
    language: Language = DEFAULT_LANGUAGE
    """The language for keyword search."""
    user_id: Id | None = None
    """The user whose document it is, for whom alone it is shown, in direct chats and threads where nobody else is.
    Null: the whole organization's."""


class DocumentOwner(Closed):
    """Whose document is meant: the parameter of `GET` and `DELETE /v1/documents/{document_id}`."""

    user_id: Id | None = None
    """The user whose document it is, by any of their ids. Null: the organization's."""


class DocumentFilter(DocumentOwner):
    """A page of documents: the parameters of `GET /v1/documents`."""

    after: Id | None = None
    """The last `document_id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class ListedDocument(Frozen):
    """A stored document."""

    document_id: str
    user_id: str | None
    """Null: it is the organization's."""
    source: str
    language: str
    chunks: int
    changed_at: datetime
    """When the newest chunk was written."""


class DocumentKept(Frozen):
    """The result of storing a document."""

    outcome: Literal["new", "replaced", "unchanged", "kept_out"]
    """`kept_out`: its user is not to be remembered."""
    chunks: int
    """The number of its chunks now."""
    written: int
    """The number of chunks written; the others were there already."""


class Passage(Frozen):
    """A chunk of a document, cited as `Doc <document_id>/Chunk <chunk_index>`."""

    chunk_index: int
    content: str
