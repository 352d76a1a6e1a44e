"""Search: queries and results, and the follow-up to an answer, "tell me more"."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Closed, Frozen, at_most
from schemas.context import Hit
from schemas.memories import EvidenceLevel
from schemas.messages import Id, IdOrEmpty, Queries, QueryText, Role, Time
from schemas.vectors import VectorSearch

SearchMode = Literal["hybrid", "similar", "topic", "contextual", "exact"]
MAX_LIMIT = 100
"""Hits of one search, messages of one page."""
MAX_NAMED = 1000
"""Senders in a filter."""
MAX_SHOWN = 10_000
"""Messages that a follow-up may name as shown."""

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class SearchQuery(Closed):
    """What to look for, and where: the body of `POST /v1/search`.

    A search never leaves its chat. Without filters it covers the whole chat; an empty filter (`"roles": []`)
    matches nothing.
    """

    chat_id: Id
    """The chat that the bot answers in."""
    query: QueryText
    """What to look for; with the mode `exact`, literally."""
    queries: Queries = Field(default_factory=list)
    """Other wordings that are searched together with it, as in a context; not with the mode `exact`."""
    hyde: bool = False
    """Whether a language model makes up an answer to search with where little is found, as in a context; not with the
    mode `exact`."""
    mode: SearchMode = "hybrid"
    limit: Limit = 10
    """The maximum of messages; of sessions with the mode `topic`."""
    user_id: Id | None = None
    """Only messages of this user, under any of their ids."""
    agent_id: Id | None = None
    """Only messages from or to this agent."""
    session_id: int | None = None
    """Only messages of this session, by its id from an earlier answer."""
    session_key: IdOrEmpty | None = None
    """Only messages with this session key."""
    roles: Annotated[list[Role], at_most(4), Field(max_length=4)] | None = None
    sender_ids: Annotated[list[Id], at_most(MAX_NAMED), Field(max_length=MAX_NAMED)] | None = None
    since: Time | None = None
    """Only messages sent, or sessions going on, at this time or later."""
    until: Time | None = None
    """Only messages sent, or sessions going on, before this time."""
    metadata: dict[str, Any] | None = None
    """Only messages whose metadata contains this, such as `{"topic": "boiler"}`."""
    min_similarity: Annotated[float, Field(ge=0, le=1)] | None = None
    """The minimum similarity of hits, as a cosine of all-MiniLM-L6-v2 whichever model embeds: 0.09 is that of unrelated
    texts, 0.73 that of texts that say the same. With `contextual` and `topic`, the minimum probability that a session
    answers; null: as the judge of relevance says. `exact` has none."""


class MessageHit(Hit):
    """A message that was found, with its whole text."""

    role: str
    text: str


class Line(Frozen):
    """A message of a session."""

    id: str
    external_id: str
    at: datetime
    speaker: str
    role: str
    text: str
    score: float | None = None
    """Null for the neighbours of a match."""


class SessionHit(Frozen):
    """A session that was found."""

    session_id: int
    rank: int
    """The rank by score, from 1, whatever the order of the list."""
    score: float
    components: dict[str, float]
    """Parts of the score by name."""
    started_at: datetime
    ended_at: datetime
    message_count: int
    topics: list[str]
    summary: str | None
    """Null: not summarized."""
    messages: list[Line] = Field(default_factory=list)
    """Matches, with the mode `contextual` also their neighbours, in order of time."""


class SearchResult(Frozen):
    """The result of a search."""

    mode: SearchMode
    hits: list[MessageHit] = Field(default_factory=list)
    """Messages, best first (`exact`: newest first)."""
    sessions: list[SessionHit] = Field(default_factory=list)
    """`contextual`: best first; `topic`: in order of time, with its `rank`."""
    related: list[SessionHit] = Field(default_factory=list)
    """`contextual`: sessions that share people, places or topics with `sessions`."""
    fell_back: bool = False
    """`contextual`: whether no session matched well enough, so that `hits` are from the whole scope."""
    searched_back_to: datetime | None = None
    """`exact`: older messages were not searched; repeat the search with `until` set to this to go on."""
    vector_search: VectorSearch | None = None
    """`hybrid`, `similar` and `contextual`: how vectors were compared; `hnsw` only in large chats without filters."""
    evidence: EvidenceLevel | None = None
    """`hybrid`: whether what was found answers the query, as in a context; null: it was not judged."""
    evidence_probability: float | None = None
    """The probability that it does."""
    degraded: list[str] = Field(default_factory=list)
    """What could not be done, as in a context."""


class MoreQuery(Closed):
    """A follow-up to an answer, "tell me more": the body of `POST /v1/more`."""

    chat_id: Id
    session_id: int
    """The session of an item or hit of the earlier answer."""
    shown: Annotated[list[int], at_most(MAX_SHOWN), Field(max_length=MAX_SHOWN)] = Field(default_factory=list)
    """Ids of the session's messages that were shown already, as in items and hits."""
    limit: Limit = 10
    """The maximum of messages per page."""


class MoreResult(Frozen):
    """Further messages of a session: pages start near those shown; each page is in order of time."""

    session_id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    messages: list[Line]
    remaining: int
    """The number of messages not shown yet."""
    next: MoreQuery | None = None
    """The body for the next page. Null: all are shown."""
