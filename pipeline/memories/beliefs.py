"""Decide which memories a person's statements make, and which supersede which, in whatever order they came. Pure.

A statement is what one session says of somebody. Statements with the same attribute are one history: a run of equal
values is a memory, superseded by every later run except one that denies another value (`not lisbon`). Statements
without an attribute contradict nothing; those that say nearly the same are one memory.

A memory belongs to one chat, or to none. If the same words from two chats were one memory, somebody who puts words into
a person's mouth in one of them could tell from its id, times or confidence that they were said in the other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from uuid import UUID

from pipeline.text.duplicates import Gist
from schemas.facts import denies_another


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of one session, or a memory written by hand."""

    # the memory that it belongs to already, if any
    memory_id: UUID | None
    # None: written by hand, so that it stays a memory of its own
    session_id: int | None
    chat_id: str | None
    said_at: datetime
    content: str
    attribute: str = ""
    value: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether it stays a memory of its own, as it was written by hand."""
        return self.session_id is None

    @cached_property
    def gist(self) -> Gist:
        """Its content in the form that is compared."""
        return Gist.of(self.content)


@dataclass(frozen=True, kw_only=True)
class Believed:
    """A memory, and the statements that it rests on, by their time."""

    # None: a new one
    memory_id: UUID | None
    statements: tuple[Statement, ...]
    # indexes, in the same list, of the memories that supersede it
    superseded_by: tuple[int, ...] = ()


def believed(
    statements: Iterable[Statement], retracted: Mapping[UUID, datetime] | None = None
) -> list[Believed]:
    """Return the memories that one person's statements make.

    A `retracted` memory is believed again only if it is stated again after that time.
    """
    retracted = retracted or {}
    memories: list[Believed] = []
    used: set[UUID] = {s.memory_id for s in statements if s.is_fixed and s.memory_id is not None}
    for history in _histories(statements):
        runs = _runs(history, retracted)
        places: list[list[int]] = []
        for run in runs:
            parts = _parts(run)
            places.append(list(range(len(memories), len(memories) + len(parts))))
            memories += [Believed(memory_id=_identity(part, used), statements=tuple(part)) for part in parts]
        for number, earlier in enumerate(places):
            # by every later one: some may be hidden in a chat, or be deleted one day
            later = tuple(
                place
                for run, later_places in zip(runs[number + 1 :], places[number + 1 :], strict=True)
                if not denies_another(run[0].value, runs[number][0].value)
                for place in later_places
            )
            for place in earlier if later else ():
                memories[place] = replace(memories[place], superseded_by=later)
    return memories


def repeats(content: str, chat_id: str, known: Iterable[Statement]) -> Statement | None:
    """Return the latest statement known in a chat that says nearly the same, whatever its attribute."""
    gist = Gist.of(content)
    alike = [one for one in known if one.chat_id == chat_id and gist.is_that_of(one.gist)]
    return max(alike, key=_order, default=None)


def _order(statement: Statement) -> tuple[datetime, int, str]:
    return statement.said_at, statement.session_id or 0, statement.content


def _histories(statements: Iterable[Statement]) -> list[list[Statement]]:
    """Group statements that may be one memory or supersede each other, each group by time.

    Statements of one memory stay together; only new ones without an attribute are compared.
    """
    groups: dict[object, list[Statement]] = {}
    loose = []
    for statement in sorted(statements, key=_order):
        if statement.attribute or statement.memory_id is not None:
            groups.setdefault(statement.attribute or statement.memory_id, []).append(statement)
        else:
            loose.append(statement)
    candidates = [group for key, group in groups.items() if not isinstance(key, str)]
    for statement in loose:
        near = next((group for group in candidates if any(_is_alike(statement, s) for s in group)), None)
        if near is None:
            candidates.append(groups.setdefault(statement, [statement]))
        else:
            near.append(statement)
            near.sort(key=_order)
    return list(groups.values())


def _is_alike(one: Statement, other: Statement) -> bool:
    return one.chat_id == other.chat_id and (one.content == other.content or one.gist.is_that_of(other.gist))


def _runs(history: Sequence[Statement], retracted: Mapping[UUID, datetime]) -> list[list[Statement]]:
    """Cut a history where its value changes, and where one of its memories was retracted."""
    runs: list[list[Statement]] = []
    breaks = sorted((at, s.value) for s in history if s.memory_id and (at := retracted.get(s.memory_id)))
    for statement in history:
        last = runs[-1] if runs else None
        cut = last is None or any(
            last[-1].said_at <= at < statement.said_at and value == statement.value for at, value in breaks
        )
        if last is None or cut or last[0].value != statement.value:
            runs.append([statement])
        else:
            last.append(statement)
    return runs


def _parts(run: Sequence[Statement]) -> list[list[Statement]]:
    """Divide a run into memories: one for each chat; a manual one absorbs those that repeat it there."""
    parts: list[list[Statement]] = []
    for statement in sorted(run, key=lambda statement: not statement.is_fixed):
        for part in () if statement.is_fixed else parts:
            if part[0].chat_id == statement.chat_id:
                part.append(statement)
                break
        else:
            parts.append([statement])
    return parts


def _identity(part: Sequence[Statement], used: set[UUID]) -> UUID | None:
    """Return the memory that most of these statements belong to, unless it is taken."""
    if part[0].is_fixed:
        return part[0].memory_id
    counted = Counter(s.memory_id for s in part if s.memory_id and s.memory_id not in used)
    if not counted:
        return None
    # the first among equals
    identity = max(counted, key=lambda memory: counted[memory])
    used.add(identity)
    return identity
