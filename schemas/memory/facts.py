"""Facts: what a conversation says of a person, an agent or the organization, before it becomes a memory."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

FactCategory = Literal["fact", "preference", "goal", "event", "relation", "learning", "decision"]
CATEGORIES: tuple[FactCategory, ...] = get_args(FactCategory)
About = Literal["speaker", "person", "agent", "organization"]
"""Whom a fact is about: who says it, somebody whom they name, the agent, or all who talk there."""

RULES = "rules-v1"
"""The extractor without a language model, of what people ask a bot to keep."""
MAX_FACT_CHARS = 140
DENIAL = "not "
"""What the value of a statement begins with that denies the rest of it."""


def is_denial(value: str) -> bool:
    """Tell whether a value denies what a statement would say with the rest of it."""
    return value.startswith(DENIAL)


def denies_another(value: str, known: str) -> bool:
    """Tell whether a value only denies another one than what is known: who is not in Lisbon may be in Porto.

    >>> denies_another("not lisbon", "porto"), denies_another("not lisbon", "lisbon")
    (True, False)
    """
    return is_denial(value) and value != DENIAL + known


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A statement that a conversation makes."""

    # a sentence that names its subject, of at most `MAX_FACT_CHARS`: `Ann is allergic to nuts.`
    content: str
    category: FactCategory
    about: About
    # the name of whom it is about, as the chat has it; empty: all who talk there
    subject: str
    # what it says something about, in English and lower case, such as `home` or `likes tea`; empty: nothing else can
    # contradict it. Of a subject, two facts with the same attribute and different values contradict each other
    attribute: str = ""
    # what it says of that, in lower case, such as `porto` or `no`
    value: str = ""
    # 0 to 1
    confidence: float
    # 1 to 10
    importance: float
    # the messages that say it, at least one, all of people
    message_ids: tuple[int, ...]
    # the first and the last moment at which it holds, where the conversation says so
    holds_from: datetime | None = None
    holds_until: datetime | None = None
    # known memories that it makes untrue
    replaces: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KnownFact:
    """A stored memory that a new fact may repeat or contradict."""

    id: UUID
    content: str
    subject: str
    attribute: str
    value: str
    # when it was said first
    said_at: datetime
