"""Protocols of summarizing a session's messages and of extracting their facts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Protocol

from pipeline.store.jobs.jobs import Claim
from schemas.facts import Fact, KnownFact
from schemas.sessions import Message, Summary


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class SummarySource:
    """Where the messages to summarize come from, and for which job."""

    tenant_id: str = ""
    chat_id: str = ""
    # the language of the chat's keyword search, such as `german`; `simple`: unknown
    language: str = "simple"
    # of the chat, for dates
    time_zone: tzinfo = UTC
    # the speakers and texts of the chat's messages before the session
    earlier: Sequence[tuple[str, str]] = ()
    # the job whose next attempt finds paid answers
    claim: Claim | None = None
    # called before each call to a model and each part of a long session: renews the lease or raises `LeaseLost`
    before_call: Callable[[], None] = _nothing


NOWHERE = SummarySource()


class Summarizer(Protocol):
    """Summarizes a session's messages."""

    @property
    def model(self) -> str:
        """Return the name that is stored with the summary, such as `extractive-v1`."""

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        source: SummarySource = NOWHERE,
    ) -> Summary:
        """Summarize at least one message, in order of time; dates are those of the source's time zone.

        `previous` is the summary of the session's earlier messages, which the new one continues. Raises
        `ProviderUnavailable`, `BudgetSpent`, `ProviderFailed` (no usable answer) or `ProviderRejected`.
        """


@dataclass(frozen=True, kw_only=True)
class People:
    """The people and the bot of a chat."""

    # `group`, `direct` or `thread`
    kind: str
    # sender ids by display name, of the chat's people
    names: Mapping[str, str] = field(default_factory=dict)
    # display names that several of them share, and that identify nobody
    shared: frozenset[str] = frozenset()
    # the bot's name; empty: none has spoken
    agent: str = ""


class FactExtractor(Protocol):
    """Extracts the facts that a session's messages state."""

    @property
    def model(self) -> str:
        """Return the name that is stored with each fact, such as `rules-v1`."""

    def extract(
        self,
        messages: Sequence[Message],
        *,
        people: People,
        known: Sequence[KnownFact] = (),
        source: SummarySource = NOWHERE,
        max_facts: int = 3,
    ) -> list[Fact]:
        """Return up to `max_facts` facts of messages in order of time, the most important first.

        A model is told what is `known` already. Raises as `Summarizer.summarize` does.
        """
