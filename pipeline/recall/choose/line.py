"""One line that a context may show, how it is written, and what its block has around it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple

from pipeline.recall.choose.wording import Wording
from pipeline.text import excerpt
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count
from schemas.context import BlockKind, ContextItem, ItemKind


class Line(NamedTuple):
    """One line that a context may show."""

    block: BlockKind
    # of the item that it becomes, as are the last four: see `ContextItem`
    kind: ItemKind
    id: str
    reason: str
    # what it is worth (`pipeline.recall.choose.worth`): lines take their tokens in this order, whatever their block
    worth: float
    # the place in the block, which is that of time
    place: tuple[object, ...]
    # writes its text within a number of tokens
    write: Callable[[int], str]
    # it may take one in `shares` of the budget, and is never cut below `least` tokens
    shares: int = 1
    least: int = 0
    # lines of one group, next to each other, are under one heading
    group: str = ""
    # the place of what was said right before, if that is known; an ellipsis marks what is left out between
    follows: tuple[object, ...] | None = None
    # whether it may be cut to what is left, so that its block is not empty
    may_be_cut: bool = False
    at: datetime | None = None
    speaker: str | None = None
    answers: str | None = None
    score: float | None = None

    def item(self, text: str) -> ContextItem:
        """Return the item that it is, shown as this text."""
        return ContextItem(
            kind=self.kind,
            id=self.id,
            text=text,
            at=self.at,
            speaker=self.speaker,
            answers=self.answers,
            score=self.score,
            reason=self.reason,
        )


@dataclass(frozen=True, kw_only=True)
class Style:
    """How the lines of a context are written."""

    # of the chat
    zone: tzinfo
    wording: Wording
    # what long texts are excerpted about
    wanted: Wanted
    count: Count

    def excerpt(self, head: str, text: str, tokens: int, *, least: int = 1, in_lines: bool = False) -> str:
        """Return the part of a text about the question that fits within `tokens` after a head, or within `least`."""
        room = max(tokens - self.count(head), least)
        return excerpt.shown(text, self.wanted, room, self.count, in_lines=in_lines)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a block has around its lines."""

    heading: str
    # most tokens that the block may take, its heading included, and its most of the budget
    cap: int | None = None
    share: float = 1.0
    # without gaps: the block ends at the first line that does not fit
    contiguous: bool = False
