"""The answer to a bot's query: ordered blocks under a token budget, and why each line is there; and the query log."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Frozen, at_most
from schemas.memories import EvidenceLevel, MemoryType
from schemas.messages import NOT_BLANK, Content
from schemas.vectors import VectorSearch

BlockKind = Literal[
    "guardrails",
    "asked",
    "decided",
    "documents",
    "memories",
    "rollups",
    "exchanges",
    "related",
    "history",
    "question",
]
"""In reading order; `asked` and `decided` only in digests."""
DropReason = Literal["budget", "cap", "duplicate", "mmr", "covered", "below_minimum", "audience"]
ItemKind = Literal["message", "session", "rollup", "memory", "document"]
Source = Literal["recent", "message", "session", "memory", "document"]
"""What tokens of a context come from, except those of the question and the guardrails."""
MAX_USED = 1000


class ContextItem(Frozen):
    """A message, session, week (`rollup`), memory or passage in a block."""

    kind: ItemKind
    id: str
    text: str
    """As in the block."""
    at: datetime | None = None
    """When it was said, or began."""
    speaker: str | None = None
    answers: str | None = None
    """The id of the message that it answers, where the text quotes that message."""
    score: float | None = None
    """The final score; null where the place decides (history, neighbours)."""
    reason: str
    """Why this line is shown, in one sentence."""


class Block(Frozen):
    """One part of a context."""

    kind: BlockKind
    tokens: int
    chars: int
    text: str
    items: list[ContextItem] = Field(default_factory=list)


class ChatMessage(Frozen):
    """A message ready for a chat model."""

    role: Literal["system", "user", "assistant"]
    content: str


class Hit(Frozen):
    """A candidate with its rank and all parts of its score."""

    kind: Literal["message", "session", "memory"]
    id: str
    external_id: str | None = None
    """A message's id on its platform."""
    session_id: int | None = None
    at: datetime | None = None
    speaker: str | None = None
    preview: str
    rank: int
    """The final rank, from 1."""
    score: float
    components: dict[str, float] = Field(default_factory=dict)
    """Parts of the score by name, such as `words` and `meaning`; a session has those of its best message."""
    arms: dict[str, int] = Field(default_factory=dict)
    """The rank, from 1, in what each arm found: `keywords`, `vectors`, `verbatim`, `times`, `named`, `newest`,
    `sessions`, `affinity`. Empty: it came with a neighbour, or with what it answers."""
    queries: dict[str, int] = Field(default_factory=dict)
    """For each arm that one of `queries` found it by, better than the question: the number of that query, from 1; a
    hypothetical answer's follows theirs."""
    shown_in: BlockKind | None = None
    """The block of the context that shows it. Null: `dropped` gives the reason why none does."""

    def by_query(self, arm: str) -> str:
        """Say by which of the other queries an arm found it; empty if by the question."""
        return f" by query {self.queries[arm]}" if arm in self.queries else ""


# What a reason without details means.
_REASONS = {"cap": "its block was full", "budget": "no tokens were left"}


class Dropped(Frozen):
    """A candidate that is not shown, and why."""

    kind: Literal["message", "session", "rollup", "memory"]
    id: str
    """Empty for what the asker may not see: `detail` then has the number."""
    reason: DropReason
    detail: str = ""

    def in_words(self) -> str:
        """Say why it is not shown.

        >>> Dropped(kind="session", id="7", reason="below_minimum", detail="not summarized").in_words()
        'below minimum (not summarized)'
        """
        detail = self.detail or _REASONS.get(self.reason, "")
        return self.reason.replace("_", " ") + (f" ({detail})" if detail else "")


class Explanation(Frozen):
    """How the context was made."""

    profile: str
    asked_by: str | None = None
    """The asker's name in the context. Null: nobody was named."""
    parameters: dict[str, Any]
    """The numbers of the profile, with what the question changed."""
    vector_search: VectorSearch
    """How the vector arm searched `rows_compared` rows."""
    rows_compared: int
    keyword_search: Literal["exact", "bounded", "off"]
    """How the keyword arm searched; `bounded`: only messages with the rarest of the words."""
    times: list[str] = Field(default_factory=list)
    """The times that the question prefers: `9 April 2026`, `before the trip: 3 May 2026, said by Ana`."""
    brief: list[str] = Field(default_factory=list)
    """Words of recent messages that were added to the question."""
    fell_back: bool = False
    """Whether the whole scope was searched, because narrowing found nothing good enough."""
    combined_by: dict[Literal["message", "session", "memory"], Literal["sum", "product"]] = Field(
        default_factory=dict
    )
    """How the components of a hit of each kind make its score."""
    evidence: dict[str, float] = Field(default_factory=dict)
    """What decided on the evidence, by signal: the parts of the logarithm of the odds."""
    evidence_reasons: list[str] = Field(default_factory=list)
    """The same in plain words, most decisive first."""
    unsure: str = ""
    """Why the evidence cannot be none, such as few messages."""
    constants: dict[str, float] = Field(default_factory=dict)
    """The weights of the ranking and its other numbers, by name."""
    sessions: list[Hit] = Field(default_factory=list)
    messages: list[Hit] = Field(default_factory=list)
    memories: list[Hit] = Field(default_factory=list)
    dropped: list[Dropped] = Field(default_factory=list)
    timings_ms: dict[str, float] = Field(default_factory=dict)
    """Milliseconds by stage."""
    tokens_by_block: dict[str, int] = Field(default_factory=dict)


class MemoryPreview(Frozen):
    """A memory that an `ask` context used."""

    id: str
    source: MemoryType
    """What it was made of: `qa_turn` of a question and its answer, `manual` by hand, `summary` of a session, …"""
    preview: str
    score: float


class Context(Frozen):
    """What a bot puts before its model."""

    context_id: str
    text: str
    """All blocks as one text."""
    messages: list[ChatMessage]
    """The same as messages for a chat model: one for the system, one with the question."""
    blocks: list[Block]
    used_tokens: int
    budget: int
    counted_by: str = "estimate"
    """The tokenizer that counted, such as `o200k_base`; or `estimate`, higher than the usual tokenizers."""
    evidence: EvidenceLevel | None = None
    """Whether what was found answers the question. Null: it was not judged, as by questions for a time alone."""
    evidence_probability: Annotated[float, Field(ge=0, le=1)] | None = None
    """The probability that it does, as learned on real talk."""
    degraded: list[str] = Field(default_factory=list)
    """What could not be done, such as `vectors: the embedding provider does not answer`."""
    fell_back: bool = False
    """Whether the whole chat was searched because no session matched well enough (profile `contextual`)."""
    explain: Explanation | None = None
    memories: list[MemoryPreview] | None = None
    """Only with the profile `ask`."""
    usedHistoryTokens: int | None = None  # noqa: N815 - the name that its users know


class AnswerIn(Frozen):
    """A bot's answer to a context: the body of `POST /v1/contexts/{context_id}/answer`."""

    v: Literal[1] = 1
    answer: Annotated[Content, NOT_BLANK]
    used: (
        Annotated[list[Annotated[str, Field(max_length=100)]], at_most(MAX_USED), Field(max_length=MAX_USED)]
        | None
    ) = None
    """Items that the answer is based on, as `kind:id` of each. Null: not known."""
    remember: bool | None = None
    """Whether question and answer become a memory of the asker. Null: as BACKSCROLL_REMEMBER_ANSWERS says."""


class AnswerReceipt(Frozen):
    """The result of reporting an answer."""

    outcome: Literal["stored", "known", "kept_out"]
    """`known`: an earlier answer is kept; `kept_out`: the asker, or an item shown, was forgotten or is not
    to be remembered."""
    memory_id: str | None = None
    """The memory made of question and answer."""


class LoggedContext(Frozen):
    """A row of the query log."""

    context_id: str
    chat_id: str
    user_id: str | None
    agent_id: str | None
    session_key: str | None
    profile: str
    asked_at: datetime
    query: str | None
    """Null: redacted."""
    shown: dict[str, str]
    """The block of each item, by `kind:id`."""
    tokens: dict[str, int]
    chars: dict[str, int]
    used_tokens: int
    budget: int
    latency_ms: float
    evidence: EvidenceLevel | None
    """Whether what was shown answers the question. Null: it was not judged."""
    degraded: list[str]
    answer: str | None
    used: list[str] | None
    answered_at: datetime | None
    memory_id: Any
    redacted_at: datetime | None


PROFILE_PURPOSES: dict[str, str] = {
    "balanced": (
        "For any bot, the default: the latest messages, and the sessions, messages, memories and "
        "documents that fit best."
    ),
    "group": (
        "For groups in which the last days matter most: the latest messages and twenty earlier "
        "ones; no memories or documents."
    ),
    "ask": (
        "For assistants that answer from what they were told: three memories, five passages, the "
        "latest messages."
    ),
    "rag": (
        "For questions about the last weeks: the five messages most like the question, worth 5 % "
        "less with each day of age, and many latest ones."
    ),
    "agent": (
        "For agents with threads of their own (`session_key`): the latest messages, ten earlier "
        "ones, memories of every scope."
    ),
    "contextual": (
        "For a look back at whole topics: the best messages of three sessions, and two related sessions."
    ),
}
"""Who each profile is for and what it shows, for help, descriptions and the guide."""
