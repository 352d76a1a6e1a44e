"""Named sets of retrieval parameters; any of them can be overridden for one request by its name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pipeline.rank import Weights
from schemas.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a context is made of. Shares are of the token budget."""

    # recent messages, verbatim
    history_tokens: int = 800
    history_share: float = 0.4
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
    # statements known of the organization, the agent and the user
    memories: int = 5
    documents: int = 5
    memory_share: float = 0.25
    # user memories of less importance are left out
    min_importance: float = 0.5
    # messages that are alike by more than this (Jaccard, of words) are shown once
    duplicate_jaccard: float = 0.8

    def __post_init__(self) -> None:
        """Counts and shares are not negative, and nothing is asked for by the thousand."""
        for field in fields(self):
            value = getattr(self, field.name)
            limit = 1.0 if "share" in field.name or "jaccard" in field.name else 100_000
            if not 0 <= value <= limit:
                raise InvalidInput(
                    f"{field.name} must be from 0 to {limit}", field=f"parameters.{field.name}"
                )


PROFILES: dict[str, Parameters] = {
    # our own best by measurement
    "balanced": Parameters(),
    # group chats: recent talk verbatim, three earlier sessions, message hits
    "group": Parameters(
        session_share=0.25, messages=20, messages_per_session=5, neighbours=1, memories=0, documents=0
    ),
    # questions to an assistant: 800 tokens of history, memories and documents
    "ask": Parameters(sessions=0, messages=10, memories=3, documents=5),
    # documents and messages, up to 4,096 tokens of history
    "rag": Parameters(history_tokens=4096, sessions=0, messages=5, memories=0, documents=5),
    # agents: the session's own messages, memories of all scopes
    "agent": Parameters(sessions=1, messages=10, memories=10),
    # summaries first, then what was said around
    "contextual": Parameters(
        history_tokens=0,
        session_chars=100,
        related=2,
        session_share=0.25,
        messages=15,
        messages_per_session=5,
        neighbours=1,
        memories=0,
    ),
}
WEIGHTS = {field.name for field in fields(Weights)}


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
        if name not in known:
            raise InvalidInput(
                f"there is no parameter {name!r}: see {', '.join(known)}", field=f"parameters.{name}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{name} must be a number", field=f"parameters.{name}")
        given[name] = int(value) if isinstance(known[name], int) else float(value)
    own = {name: value for name, value in given.items() if name not in WEIGHTS}
    return replace(base, **own), replace(weights, **{n: v for n, v in given.items() if n in WEIGHTS})
