"""One line that a context may show, its style, and the frame of its block."""

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
    # fields of the resulting `ContextItem`, as are the last four
    kind: ItemKind
    id: str
    reason: str
    # see `pipeline.recall.relevance.judge`: lines take their tokens in this order, whatever their block
    worth: float
    # the position in the block, in order of time
    place: tuple[object, ...]
    # writes its text within a number of tokens
    write: Callable[[int], str]
    # it may take one in `shares` of the budget, and is never cut below `least` tokens
    shares: int = 1
    least: int = 0
    # adjacent lines of one group share a heading
    group: str = ""
    # the place of the message right before, if known; an ellipsis marks a gap
    follows: tuple[object, ...] | None = None
    # whether it may be cut to the remaining tokens, so that its block is not empty
    may_be_cut: bool = False
    at: datetime | None = None
    speaker: str | None = None
    answers: str | None = None
    score: float | None = None

    def item(self, text: str) -> ContextItem:
        """Return the line as a context item with this text."""
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
    # the words that excerpts of long texts are about
    wanted: Wanted
    count: Count

    def excerpt(self, head: str, text: str, tokens: int, *, least: int = 1, in_lines: bool = False) -> str:
        """Return the part of a text about the question that fits within `tokens` after a head, or within `least`."""
        room = max(tokens - self.count(head), least)
        return excerpt.displayed(text, self.wanted, room, self.count, in_lines=in_lines)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The heading and the limits of a block."""

    heading: str
    # maximum tokens of the block with its heading, and its maximum share of the budget
    cap: int | None = None
    share: float = 1.0
    # without gaps: the block ends at the first line that does not fit
    contiguous: bool = False
