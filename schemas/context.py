"""The answer to a bot's query: ordered blocks under a token budget, and why each line is there."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.vectors import VectorSearch

BlockKind = Literal[
    "guardrails", "documents", "memories", "sessions", "exchanges", "related", "history", "question"
]
DropReason = Literal["budget", "cap", "duplicate", "mmr", "covered", "below_minimum", "audience"]


class BlockItem(BaseModel):
    """One thing that a block shows."""

    model_config = ConfigDict(frozen=True)

    # `message`, `session`, `memory` or `document`
    kind: Literal["message", "session", "memory", "document"]
    id: str
    # as it stands in the block
    text: str
    # when it was said, or began
    at: datetime | None = None
    speaker: str | None = None
    # the message that it answers, by its id, where the text quotes that
    answers: str | None = None
    # its final score; none for what is shown for its place alone (history, neighbours)
    score: float | None = None
    # in one sentence: why this line is here
    reason: str


class Block(BaseModel):
    """One part of a context."""

    model_config = ConfigDict(frozen=True)

    kind: BlockKind
    tokens: int
    chars: int
    text: str
    items: list[BlockItem] = Field(default_factory=list)


class ChatMessage(BaseModel):
    """A message ready for a chat model."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Hit(BaseModel):
    """A candidate with its place and everything that it was scored by."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["message", "session", "memory"]
    id: str
    # the platform's id of a message
    external_id: str | None = None
    session_id: int | None = None
    at: datetime | None = None
    speaker: str | None = None
    preview: str
    # the final place, from 1
    rank: int
    score: float
    # the score's parts by name, such as `words` and `meaning`; a session has those of its best message
    components: dict[str, float] = Field(default_factory=dict)
    # the place, from 1, that each arm alone would give it: `keywords`, `vectors`
    arms: dict[str, int] = Field(default_factory=dict)
    # the block of the context that it stands in; none: `dropped` says why not
    shown_in: BlockKind | None = None


class Dropped(BaseModel):
    """A candidate that is not shown, and why."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["message", "session", "memory"]
    # empty for what may not be shown to whoever asks: then `detail` says how many
    id: str
    reason: DropReason
    detail: str = ""


class Confidence(BaseModel):
    """Raw figures by which a bot may judge how well a question was found; none tells it reliably.

    On the sample chats (175 questions with an answer there, 15 without; local model) the area under the ROC curve is
    0.675 for `best_cosine`, 0.679 for `words_in_a_session` and 0.558 for `words_found`; 0.5 says nothing.
    """

    model_config = ConfigDict(frozen=True)

    # the highest cosine between the question and a message; none: no vectors were compared
    best_cosine: float | None
    # the mean of the cosines of the chat's messages: how near what has nothing to do with it comes
    mean_cosine: float | None
    # the question's words, without those that say nothing
    words: int
    # how many of them stand anywhere in the chat, from 0 to 1; none: there are no words
    words_found: float | None
    # the most that stand in the messages of one session, each counting by how rare it is
    words_in_a_session: float | None


class Explanation(BaseModel):
    """How the context came about."""

    model_config = ConfigDict(frozen=True)

    profile: str
    # what whoever asks is called in the context; none: nobody was named
    asked_by: str | None = None
    parameters: dict[str, Any]
    # how the vector arm searched: `exact`, `hnsw` or `off`, and the rows it compared
    vector_search: VectorSearch
    rows_compared: int
    # how the keyword arm searched: `exact`, or `bounded` to the messages with the rarest of the words
    keyword_search: Literal["exact", "bounded", "off"]
    # the times that the question prefers: `9 April 2026`, `before the trip: 3 May 2026, said by Ana`
    times: list[str] = Field(default_factory=list)
    # the words of recent talk that the question leans on, and was searched for with
    brief: list[str] = Field(default_factory=list)
    # narrowing found nothing good enough, so the whole scope was searched
    fell_back: bool = False
    # none: nothing was searched
    confidence: Confidence | None = None
    sessions: list[Hit] = Field(default_factory=list)
    messages: list[Hit] = Field(default_factory=list)
    memories: list[Hit] = Field(default_factory=list)
    dropped: list[Dropped] = Field(default_factory=list)
    # milliseconds by stage
    timings_ms: dict[str, float] = Field(default_factory=dict)
    tokens_by_block: dict[str, int] = Field(default_factory=dict)


class MemoryPreview(BaseModel):
    """A memory that an `ask` context used."""

    model_config = ConfigDict(frozen=True)

    id: str
    source: str
    preview: str
    score: float


class Context(BaseModel):
    """What a bot puts before its model."""

    model_config = ConfigDict(frozen=True)

    context_id: str
    # all blocks as one text
    text: str
    # the same as messages for a chat model: one for the system, one with the question
    messages: list[ChatMessage]
    blocks: list[Block]
    used_tokens: int
    budget: int
    # what counted the tokens: a tokenizer such as `o200k_base`, or `estimate`, on the high side of those in use
    counted_by: str = "estimate"
    # what could not be done, such as `vectors: the embedding provider does not answer`; empty: all was done
    degraded: list[str] = Field(default_factory=list)
    # no session fitted well enough to be looked into alone, so the whole chat was (the profile `contextual`)
    fell_back: bool = False
    explain: Explanation | None = None
    # with the profile `ask`
    memories: list[MemoryPreview] | None = None
    usedHistoryTokens: int | None = None  # noqa: N815 - the name that its users know
