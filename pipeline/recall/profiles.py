"""Named sets of retrieval parameters; a question may change those of `ContextParameters`.

`balanced` measures best; the others keep what their users know, with these differences:

- Messages that say the same as a better one are shown once in every profile, not only in `ask`: the tokens go to what
  is said only once.
- `contextual` looks into ten sessions, not three: those show more of the answers than three hold.
- `agent` also shows the latest messages of its thread. Its users' sessions consist of memories, ours of messages; a
  session's memories are among the others, and need not be similar to the question.
"""

from dataclasses import dataclass, field, replace

from schemas.errors import InvalidInput
from schemas.payloads import MAX_COUNT, ContextQuery
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a context: those of `ContextParameters`, documented there, and those that only a profile sets."""

    history_tokens: int = 800
    sessions: int = 3
    messages: int = MAX_COUNT
    messages_per_session: int = MAX_COUNT
    neighbours: int = 0
    related: int = 0
    memories: int = 5
    documents: int = 5
    entity_hops: int = 0
    # least worth of a message, if more than that of `pipeline.recall.relevance`
    min_similarity: float = 0.0
    # search only sessions that fit, see `pipeline.recall.gather`: as the judge says, or by at least this
    narrows: bool = False
    min_session_fit: float = 0.0
    daily_decay: float = 1.0
    mmr_lambda: float = 1.0

    # of recent talk the last three messages, what is going on and what leads to a hit is shown, by its worth; otherwise
    # all of it comes first
    history_yields: bool = True
    # characters of a session's summary
    session_chars: int = 420
    # maximum memories of the sessions in scope, the user, the agent, and the organization with its passages
    session_memories: int = MAX_COUNT
    user_memories: int = 10
    agent_memories: int = MAX_COUNT
    organization_memories: int = MAX_COUNT
    # user memories of less importance are left out
    min_importance: float = 0.5
    # ranked by the blend of `pipeline.recall.rank.rank`
    is_blended: bool = False


PROFILES: dict[str, Parameters] = {
    "balanced": Parameters(neighbours=1),
    "group": Parameters(
        messages=20,
        messages_per_session=5,
        neighbours=1,
        memories=0,
        documents=0,
        is_blended=True,
    ),
    "ask": Parameters(history_yields=False, sessions=0, messages=0, memories=3, documents=5),
    "rag": Parameters(
        history_tokens=4096,
        history_yields=False,
        sessions=0,
        messages=5,
        memories=0,
        documents=0,
        daily_decay=0.95,
        mmr_lambda=0.9,
    ),
    "agent": Parameters(
        history_yields=False,
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
        sessions=10,
        session_chars=100,
        related=2,
        neighbours=1,
        memories=0,
        documents=0,
        narrows=True,
    ),
}


def parameters_of(query: ContextQuery, settings: Settings) -> Parameters:
    """Return the parameters of a context query. Raises `InvalidInput` as `profile_named` does."""
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
    limits = {
        "history_tokens": query.max_history_tokens,
        "memories": query.top_k_memories,
        "documents": query.top_k_documents,
    }
    overrides = {name: number for name, number in limits.items() if number is not None}
    changed = query.parameters.model_dump(exclude_none=True)
    parameters = replace(profile_named(query.profile), **(configured | changed | overrides))
    if not settings.session_memory_enabled:
        parameters = replace(parameters, sessions=0, related=0, memories=0)
    return parameters


def profile_named(name: str) -> Parameters:
    """Return the parameters of a profile. Raises `InvalidInput` for an unknown one."""
    if name not in PROFILES:
        raise InvalidInput(f"profile must be one of {', '.join(PROFILES)}, not {name!r}", field="profile")
    return PROFILES[name]


OTHER_QUERY_WEIGHT = 0.8
"""Weight of a match with another query, where a match with the question counts 1."""


def _weight(value: float, means: str) -> float:
    weight: float = field(default=value, metadata={"means": means})
    return weight


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each feature, whose best value is 1.

    Those up to `number` are what `backscroll dev fit` prints, chosen on the sample chats of the part `fit`; the others
    fire for few questions and are chosen by hand.
    """

    words: float = _weight(
        0.74, "the question's words in it and in what was said around it, rare ones more (BM25)"
    )
    meaning: float = _weight(0.36, "how near it is in meaning (cosine), as a share of the best")
    session: float = _weight(0.68, "the best `meaning` in its session")
    session_words: float = _weight(
        0.14, "the question's words in its session, their share squared: all seldom meet by chance"
    )
    length: float = _weight(0.58, "its distinct words, beside twice the mean: a long message holds more")
    named: float = _weight(0.4, "the question names its speaker, or somebody whom it mentions")
    tells: float = _weight(0.06, "the share of it that does not ask: a question seldom holds the answer")
    answers: float = _weight(0.22, "how well the question that it replies to matches this one")
    when: float = _weight(0.26, "the question asks when, and it names a time")
    number: float = _weight(0.3, "the question asks how many, how long or how much, and it holds a number")
    latest: float = _weight(0.25, "the question asks how things stand now: the newest counts most")
    affinity: float = _weight(0.4, "the asker's affinity to those who spoke in its session")
    date: float = _weight(1.2, "sent at the time that the question names, or that it counts from an event")
    phrase: float = _weight(6.0, "it contains what the question quotes, which outweighs all else together")
    exact: float = _weight(1.0, "it contains an identifier, address, path or long number of the question")
