"""Named sets of retrieval parameters; any of them can be overridden for one request by its name.

`balanced` measures best; the others keep what their users know, with these differences:

- Messages that say the same as a better one are shown once in every profile, not only in `ask`: the tokens go to what
  is said only once.
- `agent` also shows the latest messages of its thread. Its users' sessions consist of memories, ours of messages; a
  session's memories are among the others, and need not be similar to the question.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from sys import float_info
from typing import Annotated, Any, get_type_hints

from pipeline.ranking.model import Weights
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.settings import Settings

# Of everything that is counted, and of a user's memories.
MAX_COUNT = 100
MAX_USER_MEMORIES = 10
# The types of parameters, with the least and the most of each.
Count = Annotated[int, (0, MAX_COUNT)]
Size = Annotated[int, (0, 100_000)]
Share = Annotated[float, (0, 1)]
Amount = Annotated[float, (0, 100_000)]
# The names of the users of `ask`.
ALIASES = {"top_k_memories": "memories", "top_k_documents": "documents"}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a context is made of."""

    # recent messages, verbatim
    history_tokens: Size = 800
    # 1: of recent talk the last three messages, what is going on and what leads to a hit is shown, by its worth; 0: all
    # of it comes first
    history_yields: Annotated[int, (0, 1)] = 1
    # words of recent talk that are added to a question that leans on it
    brief_words: Count = 12
    # the best sessions, whose summaries by a language model stand over their messages; as many of the weeks that the
    # question names
    sessions: Count = 3
    session_chars: Size = 420
    # the best messages, of them the most of one session …
    messages: Count = 100
    messages_per_session: Count = 100
    # … and the neighbours on either side that are shown with them
    neighbours: Count = 0
    # sessions that share people, places and topics with the chosen ones
    related: Count = 0
    related_chars: Size = 80
    # statements, the best of all scopes, and passages of documents
    memories: Count = 5
    documents: Count = 5
    # of them the most of the sessions in scope, the user, the agent, and the organization with its passages
    session_memories: Count = MAX_COUNT
    user_memories: Annotated[int, (0, MAX_USER_MEMORIES)] = MAX_USER_MEMORIES
    agent_memories: Count = MAX_COUNT
    organization_memories: Count = MAX_COUNT
    # user memories of less importance are left out
    min_importance: Amount = 0.5
    # messages that are less similar are left out, on the scale of `pipeline.ranking.similarity`
    min_similarity: Share = 0.0
    # a question with its answer that is not shown again counts half after so many days
    qa_half_life_days: Annotated[float, (0.01, 100_000)] = 30.0
    # narrow to the best sessions if the first fits by this (see `pipeline.retrieval.sessions`); 0: messages of all
    min_session_fit: Share = 0.0
    # hops in the entity graph from what the question names to memories that share no word with it
    entity_hops: Annotated[int, (0, 1)] = 0
    # messages with a Jaccard index of their words above this are shown once
    duplicate_jaccard: Share = 0.8
    # the shares of ranking, recency and the question's words in a blend of the three; all 0: no blend. In it a session
    # counts `session_boost` times, and a message of a session that is shown `covered_factor` times
    blend_ranking: Share = 0.0
    blend_time: Share = 0.0
    blend_words: Share = 0.0
    half_life_hours: Annotated[float, (0.01, 100_000)] = 72.0
    session_boost: Amount = 1.25
    covered_factor: Share = 0.5
    # what is left of a message's score after a day
    daily_decay: Share = 1.0
    # the share of the score, where similarity to better messages has the rest (maximal marginal relevance)
    mmr_lambda: Share = 1.0

    @property
    def blend(self) -> tuple[float, float, float] | None:
        """The shares of the blend, or None."""
        shares = (self.blend_ranking, self.blend_time, self.blend_words)
        return shares if any(shares) else None


PROFILES: dict[str, Parameters] = {
    "balanced": Parameters(neighbours=1),
    "group": Parameters(
        messages=20,
        messages_per_session=5,
        neighbours=1,
        memories=0,
        documents=0,
        blend_ranking=0.45,
        blend_time=0.25,
        blend_words=0.30,
    ),
    "ask": Parameters(history_yields=0, sessions=0, messages=0, memories=3, documents=5),
    "rag": Parameters(
        history_tokens=4096,
        history_yields=0,
        sessions=0,
        messages=5,
        memories=0,
        documents=0,
        min_similarity=0.7,
        daily_decay=0.95,
        mmr_lambda=0.7,
    ),
    "agent": Parameters(
        history_yields=0,
        sessions=0,
        messages=10,
        memories=23,
        session_memories=10,
        user_memories=5,
        agent_memories=3,
        organization_memories=5,
    ),
    "contextual": Parameters(
        history_tokens=0,
        session_chars=100,
        related=2,
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
        "For any bot, and the default: the latest messages, and the sessions, messages, memories and "
        "documents that fit the question best."
    ),
    "group": (
        "For group chats in which the last days matter most: the latest messages, and twenty earlier ones "
        "between their neighbours, the newer the better; no memories, no documents."
    ),
    "ask": (
        "For an assistant that answers from what it was told to remember: three memories, five passages "
        "of documents and the latest messages; earlier talk is not searched."
    ),
    "rag": (
        "For questions about the talk of the last weeks: the five messages most like the question, if they "
        "are like it at all, worth 5 % less with each day of their age, and up to 4,096 tokens of the latest "
        "ones; no summaries, no memories."
    ),
    "agent": (
        "For agents that work in threads of their own (`session_key`): the latest messages, ten earlier "
        "ones, and memories of the session, the user, the agent and the organization; no summaries."
    ),
    "contextual": (
        "For a look back at whole topics: the three sessions that fit best, the best messages in them "
        "between their neighbours, and two related sessions; no latest messages, no memories."
    ),
}
"""Who each profile is for and what it shows, for help, descriptions and the README."""
WEIGHTS = {field.name for field in fields(Weights)}
# The least and the most of each parameter and weight; a weight that is added may also take away.
_LIMITS: Mapping[str, tuple[float, float]] = {
    **{name: hint.__metadata__[0] for name, hint in get_type_hints(Parameters, include_extras=True).items()},
    **dict.fromkeys(WEIGHTS, (-1000, 1000)),
}


def parameters_of(query: ContextQuery, settings: Settings) -> tuple[Parameters, Weights]:
    """Return the parameters and weights of a context query. Raises `InvalidInput` as `parameters_for` does."""
    # group bots are configured by settings; the other profiles are what their names promise
    configured = (
        {
            "sessions": settings.session_max_retrieved,
            "history_tokens": settings.context_history_tokens,
            "min_importance": settings.memory_min_importance,
        }
        if query.profile in {"balanced", "group"}
        else {}
    )
    own = {
        "history_tokens": query.max_history_tokens,
        "top_k_memories": query.top_k_memories,
        "top_k_documents": query.top_k_documents,
    }
    given = {name: number for name, number in own.items() if number is not None}
    parameters, weights = parameters_for(query.profile, {**configured, **query.parameters, **given})
    if not settings.session_memory_enabled:
        parameters = replace(parameters, sessions=0, related=0, memories=0)
    return parameters, weights


def parameters_for(profile: str, overrides: Mapping[str, Any]) -> tuple[Parameters, Weights]:
    """Return the profile's parameters and the ranking's weights, overridden by a request's own values.

    Raises `InvalidInput` that names what is unknown, of the wrong type or out of its limits.
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
        least, most = _LIMITS[name]
        if not least <= value <= most:
            raise InvalidInput(f"{name} must be from {least:g} to {most:g}", field=f"parameters.{name}")
        given[name] = int(value) if isinstance(known[name], int) else float(value)
    own = {name: value for name, value in given.items() if name not in WEIGHTS}
    return replace(base, **own), replace(weights, **{n: v for n, v in given.items() if n in WEIGHTS})


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number: JSON may contain `1e999`."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and -float_info.max <= value <= float_info.max
