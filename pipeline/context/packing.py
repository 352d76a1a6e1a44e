"""Fit blocks into a token budget: entries in order of worth, shown in order of time. Pure.

A block takes the entries that fit, the best first, and gives the reason for each that it leaves out. Tokens are counted
by line, line ends included (`pipeline.text.tokens`), so the tokens of a context are the sum of those of its lines.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.tokens import Count, estimate_line
from pipeline.text.truncate import ELLIPSIS
from schemas.context import Block, BlockKind, ContextItem, Dropped, DropReason, ItemKind

UNCAPPED = 100_000
"""The cap of a section that may take all that is left of the budget."""
# After this many entries in a row that did not fit, once one did, smaller ones further down would only be noise.
MAX_MISSES = 3
# Where nothing has fitted yet, an entry is cut if this many tokens of it do; later a shorter one says more.
MIN_CUT_TOKENS = 16


class Entry(NamedTuple):
    """One line that a block may show; a tuple, which is made faster than a dataclass."""

    kind: ItemKind
    id: str
    # the order in the block, which is that of time
    place: tuple[object, ...]
    # the text, within so many tokens, or within its usual share of the block
    write: Callable[[int | None], str]
    # the item that shows this text
    make: Callable[[str], ContextItem]
    score: float | None = None
    # entries of one group, next to each other, are under one heading
    group: str = ""
    # the place of the entry right before this one, if that is known; an ellipsis marks what is left out between
    neighbour_of: tuple[object, ...] | None = None
    # whether it may be cut to what is left, so that the block is not empty
    may_be_cut: bool = False


def entry_of(item: ContextItem, place: tuple[object, ...]) -> Entry:
    """Offer an item as it is."""
    return Entry(item.kind, item.id, place, lambda _: item.text, lambda _: item, item.score)


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a block may show: its heading, and its entries, the best first."""

    kind: BlockKind
    heading: str
    # with what is left out whatever the budget; may be a generator, and is consumed once
    entries: Iterable[Entry | Dropped]
    # most tokens of the budget that it may take, heading included
    cap: int
    # recalled text is fenced
    fenced: bool = True
    # without gaps: stop at the first entry that does not fit
    contiguous: bool = False


@dataclass(frozen=True, kw_only=True)
class PackedBlock:
    """A block within its budget, and what did not fit."""

    block: Block | None
    dropped: list[Dropped] = field(default_factory=list)


def least(section: Section, count: Count = estimate_line) -> int:
    """Return the tokens of a block that shows the first entry of a section alone; 0 if it has none."""
    first = next((entry for entry in section.entries if isinstance(entry, Entry)), None)
    if first is None:
        return 0
    around = [section.heading, *((OPEN, CLOSE) if section.fenced else ()), first.group]
    return sum(map(count, filter(None, (*around, first.write(None)))))


def fill(section: Section, room: int, count: Count = estimate_line, *, explained: bool = True) -> PackedBlock:
    """Pack the block that fits into `room` tokens and the section's own cap; no block if nothing fits.

    If not `explained`, no entry is read once the block is full, so not all that is dropped is listed.
    """
    (packed,) = fill_in_turn([section], room, count, explained=explained)
    return packed


def fill_in_turn(
    sections: Sequence[Section], room: int, count: Count = estimate_line, *, explained: bool = True
) -> list[PackedBlock]:
    """Pack several blocks that share `room` tokens: what has the highest score, in whichever of them, comes first.

    An entry without a score comes right after the one before it.
    """
    packings = [_Packing(section, count) for section in sections]
    for number, entry in _by_score([section.entries for section in sections], packings, explained=explained):
        room -= packings[number].offer(entry, room)
    return [packing.packed() for packing in packings]


class _Packing:
    """A block that is being packed."""

    def __init__(self, section: Section, count: Count) -> None:
        self.section = section
        self.count = count
        # in order of place, with their texts
        self.chosen: list[tuple[Entry, str]] = []
        self.left_out: list[Dropped] = []
        self.dropped: list[Dropped] = []
        self.spent = 0
        self.misses = 0
        self.reason: DropReason = "cap"
        self.frame = count(section.heading) + (count(OPEN) + count(CLOSE) if section.fenced else 0)
        self.ellipsis = count(ELLIPSIS)

    @property
    def is_full(self) -> bool:
        """Whether too many entries in a row did not fit."""
        if self.section.contiguous:
            return self.misses > 0
        return bool(self.chosen) and self.misses >= MAX_MISSES

    def offer(self, entry: Entry | Dropped, room: int) -> int:
        """Take an entry if it fits, cut if need be; return the tokens that it takes."""
        if isinstance(entry, Dropped):
            self.left_out.append(entry)
            return 0
        if self.is_full:
            self._drop(entry)
            return 0
        at = bisect_left(self.chosen, entry.place, key=lambda pair: pair[0].place)
        before = self.chosen[at - 1][0] if at else None
        after = self.chosen[at][0] if at < len(self.chosen) else None
        around = self._between(before, entry) + self._between(entry, after) - self._between(before, after)
        around += 0 if self.chosen else self.frame
        text = entry.write(None)
        own, free = self.count(text), min(room, self.section.cap - self.spent) - around
        if own > free >= MIN_CUT_TOKENS and entry.may_be_cut and not self.chosen:
            text = entry.write(free)
            own = self.count(text)
        if own > free:
            self.misses += 1
            self.reason = "budget" if own + around > room else "cap"
            self._drop(entry)
            return 0
        self.spent, self.misses = self.spent + own + around, 0
        self.chosen.insert(at, (entry, text))
        return own + around

    def packed(self) -> PackedBlock:
        """Return the block, if anything fitted, and what was dropped."""
        block = None
        if self.chosen:
            text, kind = self._render(), self.section.kind
            # by the estimate a text takes what its lines take
            tokens = self.spent if self.count is estimate_line else self.count(text)
            items = [entry.make(shown) for entry, shown in self.chosen]
            block = Block(kind=kind, tokens=tokens, chars=len(text), text=text, items=items)
        return PackedBlock(block=block, dropped=self.left_out + self.dropped)

    def _between(self, before: Entry | None, after: Entry | None) -> int:
        """Return the tokens of the line between two entries, a heading or an ellipsis."""
        if after is None:
            return 0
        if before is None or before.group != after.group:
            return self.count(after.group) if after.group else 0
        return self.ellipsis if _has_gap(before, after) else 0

    def _render(self) -> str:
        section = self.section
        lines = [section.heading] if section.heading else []
        if section.fenced:
            lines.append(OPEN)
        before = None
        for entry, text in self.chosen:
            if before is None or before.group != entry.group:
                if entry.group:
                    lines.append(entry.group)
            elif _has_gap(before, entry):
                lines.append(ELLIPSIS)
            lines.append(text)
            before = entry
        if section.fenced:
            lines.append(CLOSE)
        return "\n".join(lines)

    def _drop(self, entry: Entry) -> None:
        kind = "memory" if entry.kind == "document" else entry.kind
        self.dropped.append(Dropped(kind=kind, id=entry.id, reason=self.reason))


def _has_gap(before: Entry, after: Entry) -> bool:
    """Return whether something is left out between two entries under one heading."""
    return after.neighbour_of is not None and after.neighbour_of != before.place


def _by_score(
    offered: Sequence[Iterable[Entry | Dropped]], packings: Sequence[_Packing], *, explained: bool
) -> Iterator[tuple[int, Entry | Dropped]]:
    """Yield the entries of several sections, with the section's number: the highest score of those next in line first.

    The entries of a block that is full are read only if they are `explained`.
    """
    waiting = {number: iter(entries) for number, entries in enumerate(offered)}
    heads: dict[int, Entry] = {}
    while waiting:
        for number in list(waiting):
            while number not in heads and number in waiting:
                head = next(waiting[number], None)
                if head is None or (packings[number].is_full and not explained):
                    del waiting[number]
                elif isinstance(head, Dropped) or head.score is None:
                    yield number, head
                else:
                    heads[number] = head
        if heads:
            best = max(heads, key=lambda number: (heads[number].score or 0.0, -number))
            yield best, heads.pop(best)


def plain(kind: BlockKind, text: str, count: Count) -> Block:
    """Make a block of this text, such as the guardrails or the question."""
    return Block(kind=kind, tokens=count(text), chars=len(text), text=text)
