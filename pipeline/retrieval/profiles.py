"""Named sets of retrieval parameters; any of them can be overridden for one request by its name.

`balanced` is our own best by measurement; the others keep what their users know, with these differences:

- Messages that say the same as a better one are shown once in every profile, not in `ask` alone: the tokens go to
  what is said only once.
- `agent` also shows the latest messages of its thread. Where its users' sessions were made of memories, ours are made
  of messages; a session's memories stand with the others, and need not be like the question.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from sys import float_info
from typing import Any

from pipeline.ranking.model import Weights
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.settings import Settings

_AT_MOST_1 = {
    *("history_share", "session_share", "memory_share", "duplicate_jaccard", "daily_decay", "mmr_lambda"),
    *("blend_ranking", "blend_time", "blend_words", "covered_factor", "min_similarity", "min_session_fit"),
    "memory_similarity",
}
# Of everything that is counted out, and of a user's memories.
MOST = 100
MOST_OF_A_USER = 10
_AT_MOST = dict.fromkeys(
    (
        *("sessions", "messages", "messages_per_session", "neighbours", "related", "memories", "documents"),
        *("session_memories", "agent_memories", "organization_memories", "brief_words"),
    ),
    MOST,
) | {"user_memories": MOST_OF_A_USER}
# As the users of an `ask` know them.
ALIASES = {"top_k_memories": "memories", "top_k_documents": "documents"}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a context is made of. Shares are of the token budget."""

    # recent messages, verbatim
    history_tokens: int = 800
    history_share: float = 0.4
    # a question that leans on what was just said is searched for with so many of its words
    brief_words: int = 12
    # summaries of the best sessions, with time window and topics
    sessions: int = 3
    session_chars: int = 420
    session_share: float = 0.1
    # the best messages, of which so many come from one session …
    messages: int = 100
    messages_per_session: int = 100
    # … and so many neighbours on either side of the best of them are shown for reading
    neighbours: int = 0
    # sessions that share people, places and topics with the chosen ones
    related: int = 0
    related_chars: int = 80
    # statements, the best of all scopes, and passages of documents
    memories: int = 5
    documents: int = 5
    # of them so many of the sessions in scope, the user, the agent, and the organization, passages among the last
    session_memories: int = MOST
    user_memories: int = MOST_OF_A_USER
    agent_memories: int = MOST
    organization_memories: int = MOST
    memory_share: float = 0.25
    # user memories of less importance are left out
    min_importance: float = 0.5
    # messages, statements and passages less like the question are left out, on the scale of
    # `pipeline.ranking.similarity`
    min_similarity: float = 0.0
    # a statement with no word of the question is shown from so much likeness on, on the same scale. On the sample chats
    # (192 questions, local model) 77 % of the evidence is shown by this or by a word, 8 % of other chats' messages;
    # from 0.5 on 92 and 35 %, from 0.7 on 62 and 2 %
    memory_similarity: float = 0.6
    # narrow to the best sessions, if the first fits by so much (see `pipeline.retrieval.session_ranking`); 0:
    # messages of all sessions
    min_session_fit: float = 0.0
    # messages that are alike by more than this (Jaccard, of words) are shown once
    duplicate_jaccard: float = 0.8
    # the shares of the ranking, of newness and of the question's words in a blend of the three; all 0: no blend.
    # In it a session counts `session_boost` times as much, and a message of a session that is shown `covered_factor`
    blend_ranking: float = 0.0
    blend_time: float = 0.0
    blend_words: float = 0.0
    half_life_hours: float = 72.0
    session_boost: float = 1.25
    covered_factor: float = 0.5
    # what is left of a message's score after a day
    daily_decay: float = 1.0
    # what the score counts where likeness to better messages counts the rest (maximal marginal relevance)
    mmr_lambda: float = 1.0

    @property
    def blend(self) -> tuple[float, float, float] | None:
        """The shares of the blend, or None."""
        shares = (self.blend_ranking, self.blend_time, self.blend_words)
        return shares if any(shares) else None

    def __post_init__(self) -> None:
        """Counts and shares are not negative, and nothing is asked for by the thousand."""
        for field in fields(self):
            value = getattr(self, field.name)
            limit = 1.0 if field.name in _AT_MOST_1 else _AT_MOST.get(field.name, 100_000)
            if not 0 <= value <= limit:
                raise InvalidInput(
                    f"{field.name} must be from 0 to {limit}", field=f"parameters.{field.name}"
                )
        if not self.half_life_hours:
            raise InvalidInput("half_life_hours must be above 0", field="parameters.half_life_hours")


PROFILES: dict[str, Parameters] = {
    # our own best by measurement
    "balanced": Parameters(),
    # group chats: recent talk verbatim, three earlier sessions, message hits
    "group": Parameters(
        session_share=0.25,
        messages=20,
        messages_per_session=5,
        neighbours=1,
        memories=0,
        documents=0,
        blend_ranking=0.45,
        blend_time=0.25,
        blend_words=0.30,
    ),
    # questions to an assistant: 800 tokens of history, memories and documents
    "ask": Parameters(sessions=0, messages=0, memories=3, documents=5),
    # the messages that are most like the question, up to 4,096 tokens of history
    "rag": Parameters(
        history_tokens=4096,
        sessions=0,
        messages=5,
        memories=0,
        documents=0,
        min_similarity=0.7,
        daily_decay=0.95,
        mmr_lambda=0.7,
    ),
    # agents: the session's own messages, memories of all scopes
    "agent": Parameters(
        sessions=0,
        messages=10,
        memories=23,
        session_memories=10,
        user_memories=5,
        agent_memories=3,
        organization_memories=5,
    ),
    # summaries first, then what was said around; where none fits, what was said anywhere
    "contextual": Parameters(
        history_tokens=0,
        session_chars=100,
        related=2,
        session_share=0.25,
        messages=15,
        messages_per_session=5,
        neighbours=1,
        memories=0,
        documents=0,
        min_session_fit=0.5,
    ),
}
PURPOSES: dict[str, str] = {
    "balanced": (
        "For any bot, and the default: the latest messages, and the sessions, messages, memories "
        "and documents that fit the question best."
    ),
    "group": (
        "For group chats in which the last days matter most: the latest messages, three earlier "
        "sessions, and twenty messages between their neighbours, the newer the better; no "
        "memories, no documents."
    ),
    "ask": (
        "For an assistant that answers from what it was told to remember: three memories, five "
        "passages of documents and the latest messages; earlier talk is not searched."
    ),
    "rag": (
        "For questions about earlier talk itself: the five messages most like the question, if "
        "they are like it at all, and up to 4,096 tokens of the latest ones; no summaries, no "
        "memories."
    ),
    "agent": (
        "For agents that work in threads of their own (`session_key`): the latest messages, ten "
        "earlier ones, and memories of the session, the user, the agent and the organization; no "
        "summaries."
    ),
    "contextual": (
        "For a look back at whole topics: the three sessions that fit best, the best messages in "
        "them between their neighbours, and two related sessions; no latest messages, no "
        "memories."
    ),
}
"""Whom each profile is for and what it shows, in a sentence: for help, descriptions and the README."""
WEIGHTS = {field.name for field in fields(Weights)}
# What a weight may be, from … to; those that only add up may take away as well.
_WEIGHT_LIMITS = {
    "decay": (0.0, 1.0),
    "decay_back": (0.0, 1.0),
    "burst_step": (0.0, 100.0),
    "half_substance": (0.0, 1000.0),
    "date_half_life_days": (0.01, 100_000.0),
}
_ANY_WEIGHT = (-1000.0, 1000.0)


def parameters_of(query: ContextQuery, settings: Settings) -> tuple[Parameters, Weights]:
    """The parameters and weights of a context query. Raises `InvalidInput` as `parameters_for` does."""
    # settings are the defaults of `balanced` only: the other profiles are what their names promise
    configured = (
        {
            "sessions": settings.session_max_retrieved,
            "history_tokens": settings.context_history_tokens,
            "min_importance": settings.memory_min_importance,
        }
        if query.profile == "balanced"
        else {}
    )
    own = {"top_k_memories": query.top_k_memories, "top_k_documents": query.top_k_documents}
    given = {name: number for name, number in own.items() if number is not None}
    return parameters_for(query.profile, {**configured, **query.parameters, **given})


def parameters_for(profile: str, overrides: Mapping[str, Any]) -> tuple[Parameters, Weights]:
    """The profile's parameters and the ranking's weights, with a request's own values on top.

    Raises `InvalidInput` that names what is unknown or of the wrong type.
    """
    if profile not in PROFILES:
        raise InvalidInput(f"profile must be one of {', '.join(PROFILES)}, not {profile!r}", field="profile")
    base, weights = PROFILES[profile], Weights()
    known = {**asdict(weights), **asdict(base)}
    given: dict[str, Any] = {}
    for name, value in overrides.items():
        name = ALIASES.get(name, name)
        if name not in known:
            raise InvalidInput(
                f"there is no parameter {name!r}: see {', '.join(known)}", field=f"parameters.{name}"
            )
        if not _is_number(value):
            raise InvalidInput(f"{name} must be a number", field=f"parameters.{name}")
        least, most = _WEIGHT_LIMITS.get(name, _ANY_WEIGHT)
        if name in WEIGHTS and not least <= value <= most:
            raise InvalidInput(f"{name} must be from {least:g} to {most:g}", field=f"parameters.{name}")
        given[name] = int(value) if isinstance(known[name], int) else float(value)
    own = {name: value for name, value in given.items() if name not in WEIGHTS}
    return replace(base, **own), replace(weights, **{n: v for n, v in given.items() if n in WEIGHTS})


def _is_number(value: Any) -> bool:
    """Whether it is a number that can be reckoned with: JSON may bring `1e999`."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and -float_info.max <= value <= float_info.max
