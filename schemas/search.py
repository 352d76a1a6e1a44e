"""What a search asks and finds, and the follow-up to an answer: "tell me more"."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from schemas.context import Hit
from schemas.limits import Closed, at_most
from schemas.messages import MAX_ID_CHARS, Id, Role, Time, cleaned
from schemas.vectors import VectorSearch

SearchMode = Literal["hybrid", "similar", "topic", "contextual", "exact"]
MAX_LIMIT = 100
"""Hits of one search, messages of one page."""
MAX_NAMED = 1000
"""Senders of a filter."""
MAX_SHOWN = 10_000
"""Messages that a follow-up names as shown."""

SomeId = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class SearchQuery(Closed):
    """What to look for, and where: the body of `POST /v1/search`.

    A search never leaves its chat. What narrows it may be left out: then all of the chat is searched, over all
    its sessions. A filter that is there and empty (`"roles": []`) matches nothing.
    """

    # the chat that the bot answers in
    chat_id: SomeId
    # what to look for; with the mode `exact` the very characters
    query: Annotated[str, BeforeValidator(cleaned), Field(min_length=1, max_length=8000)]
    mode: SearchMode = "hybrid"
    # so many messages; sessions, with the mode `topic`
    limit: Limit = 10
    # messages that this user sent, under any of their ids
    user_id: SomeId | None = None
    # messages that this agent said or was told
    agent_id: SomeId | None = None
    # of one session, by the id that an earlier answer gave
    session_id: int | None = None
    # of one thread that an agent named
    session_key: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    roles: Annotated[list[Role], at_most(4), Field(max_length=4)] | None = None
    sender_ids: Annotated[list[SomeId], at_most(MAX_NAMED), Field(max_length=MAX_NAMED)] | None = None
    # said (sessions: going on) from then …
    since: Time | None = None
    # … until then, that moment not included
    until: Time | None = None
    # what a message's metadata must hold, as in {"topic": "boiler"}
    metadata: dict[str, Any] | None = None
    # hits less like the query than this are left out; of the modes but `exact`, each has its own default
    min_similarity: Annotated[float, Field(ge=0, le=1)] | None = None


class MessageHit(Hit):
    """A message that was found, whole."""

    role: str
    text: str


class Line(BaseModel):
    """A message as it was said, in the order of its session."""

    model_config = ConfigDict(frozen=True)

    id: str
    external_id: str
    at: datetime
    speaker: str
    role: str
    text: str
    # none for what is shown for its place alone, beside a match
    score: float | None = None


class SessionHit(BaseModel):
    """A session that was found."""

    model_config = ConfigDict(frozen=True)

    session_id: int
    # the place by score, from 1, whatever the order of the list
    rank: int
    score: float
    # what the score is made of
    components: dict[str, float]
    started_at: datetime
    ended_at: datetime
    message_count: int
    topics: list[str]
    # none as long as it is not summarized
    summary: str | None
    # with the mode `contextual`: the matches inside with their neighbours, in order of time
    messages: list[Line] = Field(default_factory=list)


class SearchResult(BaseModel):
    """What a search found."""

    model_config = ConfigDict(frozen=True)

    mode: SearchMode
    # messages, best first (`exact`: newest first)
    hits: list[MessageHit] = Field(default_factory=list)
    # `contextual`: best first; `topic`: best first, or in order of time where a time window is asked for
    sessions: list[SessionHit] = Field(default_factory=list)
    # `contextual`: sessions that share people, places or topics with those above
    related: list[SessionHit] = Field(default_factory=list)
    # `contextual`: no session fits well enough, so `hits` are those of the whole scope
    fell_back: bool = False
    # `exact`: older messages than this were not looked at; the same search with `until` set to it goes on
    searched_back_to: datetime | None = None
    # `hybrid`, `similar` and `contextual`: how vectors of messages were compared; `hnsw`, by the index, in large chats
    # without a filter alone
    vector_search: VectorSearch | None = None
    # what could not be done, as in a context; empty: all was done
    degraded: list[str] = Field(default_factory=list)


class MoreQuery(Closed):
    """A follow-up to an answer, "tell me more": the body of `POST /v1/more`."""

    chat_id: SomeId
    # of an item or a hit of the earlier answer
    session_id: int
    # ids of the session's messages that were shown already, as items and hits name them
    shown: Annotated[list[int], at_most(MAX_SHOWN), Field(max_length=MAX_SHOWN)] = Field(default_factory=list)
    # messages of one page
    limit: Limit = 10


class MoreResult(BaseModel):
    """Further messages of a session, those nearest to what was shown first by page, in order of time inside."""

    model_config = ConfigDict(frozen=True)

    session_id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    messages: list[Line]
    # messages of the session that no page has shown yet
    remaining: int
    # the query of the next page; none when all is shown
    next: MoreQuery | None = None
