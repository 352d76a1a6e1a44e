"""Named sets of retrieval parameters; a question may change those of `ContextParameters`.

`balanced` measures best; the others keep what their users know, with these differences:

- Messages that say the same as a better one are shown once in every profile, not only in `ask`: the tokens go to what
  is said only once.
- `contextual` looks into ten sessions, not three: those show more of the answers than three hold.
- `agent` also shows the latest messages of its thread. Its users' sessions consist of memories, ours of messages; a
  session's memories are among the others, and need not be similar to the question.
"""

from dataclasses import dataclass, replace

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


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each feature, whose best value is 1.

    Those up to `number` are what `backscroll dev fit` prints, chosen on the sample chats of the part `fit`; the others
    fire for few questions and are chosen by hand.
    """

    # BM25 of the message read together with what was said around it
    words: float = 0.74
    # cosine of the message itself, as its share of the best
    meaning: float = 0.36
    # the best `meaning` in its session
    session: float = 0.68
    # the share of the question's words that occur in its session, squared: all of them seldom meet by chance
    session_words: float = 0.14
    # its distinct words, beside twice the mean: a long message holds more
    length: float = 0.58
    # the question names its speaker, or somebody whom it mentions
    named: float = 0.4
    # a question seldom holds the answer: the share of the message that does not ask
    tells: float = 0.06
    # a reply to somebody else's question often is the answer: how well that question matches this one
    answers: float = 0.22
    # the question asks when, and this message names a time
    when: float = 0.26
    # the question asks how many, how long or how much, and this message holds a number
    number: float = 0.3
    # the question asks how things stand now: the newest counts most
    latest: float = 0.25
    # the asker's affinity to those who spoke in its session
    affinity: float = 0.4
    # sent at the time that the question names, or that it counts from an event
    date: float = 1.2
    # the message contains what the question quotes: this outweighs all else together
    phrase: float = 6.0
    # the message contains an identifier, address, path or long number of the question
    exact: float = 1.0
