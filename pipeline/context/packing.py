"""Fit blocks into a token budget: entries in order of worth, shown in order of time. Pure.

A block takes the entries that fit, the best first, and gives the reason for each that it leaves out. Tokens are counted
by line, line ends included (`pipeline.text.tokens`), so the tokens of a context are the sum of those of its lines.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.tokens import Count, estimate_line
from pipeline.text.truncate import ELLIPSIS
from schemas.context import Block, BlockKind, ContextItem, Dropped, DropReason

BLOCK_ORDER: tuple[BlockKind, ...] = (
    "guardrails",
    "documents",
    "memories",
    "rollups",
    "sessions",
    "exchanges",
    "related",
    "history",
    "question",
)
UNCAPPED = 100_000
"""The cap of a section that may take all that is left of the budget."""
# After this many entries in a row that did not fit, once one did, smaller ones further down would only be noise.
MAX_MISSES = 3
# An entry that does not fit is cut if this many tokens of it do, and a third of it: less tells nothing.
MIN_CUT_TOKENS = 32
_LEAST_SHARE = 3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line that a block may show."""

    item: ContextItem
    # the order in the block: groups by their first place, entries inside by theirs
    place: tuple[object, ...]
    # entries of one group are under one heading
    group: str = ""
    # the place of the entry right before this one, if that is known; an ellipsis marks what is left out between
    neighbour_of: tuple[object, ...] | None = None
    # the text within so many tokens, for what may be cut
    cut: Callable[[int], str] | None = None


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


class Page:
    """The blocks of a context under its budget, each packed into what those before it left."""

    def __init__(self, budget: int, count: Count = estimate_line, *, explained: bool = True) -> None:
        self.room = budget
        self.count = count
        self.explained = explained
        self.blocks: dict[BlockKind, Block] = {}
        self.dropped: list[Dropped] = []

    def put(self, block: Block) -> bool:
        """Add a block as it is; False if there is no room for it."""
        if block.tokens > self.room:
            return False
        self.blocks[block.kind] = block
        self.room -= block.tokens
        return True

    def fill(self, section: Section, *, keep_free: int = 0) -> None:
        """Add what fits of a section, keeping `keep_free` tokens for the blocks after it."""
        packed = fill(section, self.room - keep_free, self.count, explained=self.explained)
        self.dropped.extend(packed.dropped)
        if packed.block is not None:
            self.put(packed.block)

    def fill_in_turn(self, sections: Sequence[Section], *, keep_free: int = 0) -> None:
        """Add what fits of several sections, the highest score first, in whichever of them it is."""
        for packed in fill_in_turn(sections, self.room - keep_free, self.count, explained=self.explained):
            self.dropped.extend(packed.dropped)
            if packed.block is not None:
                self.put(packed.block)

    def items(self, kind: BlockKind) -> list[ContextItem]:
        """Return what one of the blocks shows."""
        return self.blocks[kind].items if kind in self.blocks else []

    def copy(self) -> "Page":
        """Return a copy that can be filled otherwise."""
        page = Page(self.room, self.count, explained=self.explained)
        page.blocks, page.dropped = dict(self.blocks), list(self.dropped)
        return page

    def ordered(self) -> list[Block]:
        """Return the blocks in reading order."""
        return [self.blocks[kind] for kind in BLOCK_ORDER if kind in self.blocks]


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
        self.chosen: list[Entry] = []
        self.groups: set[str] = set()
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
        at = bisect_left(self.chosen, entry.place, key=lambda e: e.place)
        before = self.chosen[at - 1] if at else None
        after = self.chosen[at] if at < len(self.chosen) else None
        gaps = _gap(before, entry) + _gap(entry, after) - _gap(before, after)
        around = gaps * self.ellipsis + (0 if self.chosen else self.frame)
        if entry.group and entry.group not in self.groups:
            around += self.count(entry.group)
        own, free = self.count(entry.item.text), min(room, self.section.cap - self.spent) - around
        if own > free and (shorter := self._cut(entry, own, free)) is not None:
            entry, own = shorter, self.count(shorter.item.text)
        if own > free:
            self.misses += 1
            self.reason = "budget" if own + around > room else "cap"
            self._drop(entry)
            return 0
        self.spent, self.misses = self.spent + own + around, 0
        self.chosen.insert(at, entry)
        self.groups.add(entry.group)
        return own + around

    def packed(self) -> PackedBlock:
        """Return the block, if anything fitted, and what was dropped."""
        block = None
        if self.chosen:
            text = _render(self.section, self.chosen)
            block = plain(self.section.kind, text, self.count, [entry.item for entry in self.chosen])
        return PackedBlock(block=block, dropped=self.left_out + self.dropped)

    def _cut(self, entry: Entry, own: int, free: int) -> Entry | None:
        """Cut an entry to what is free, if that shows enough of it."""
        if entry.cut is None or free < max(MIN_CUT_TOKENS, own // _LEAST_SHARE):
            return None
        text = entry.cut(free)
        if not text or self.count(text) > free:
            return None
        return replace(entry, item=entry.item.model_copy(update={"text": text}))

    def _drop(self, entry: Entry) -> None:
        kind = "memory" if entry.item.kind == "document" else entry.item.kind
        self.dropped.append(Dropped(kind=kind, id=entry.item.id, reason=self.reason))


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
                elif isinstance(head, Dropped) or head.item.score is None:
                    yield number, head
                else:
                    heads[number] = head
        if heads:
            best = max(heads, key=lambda number: (heads[number].item.score or 0.0, -number))
            yield best, heads.pop(best)


def plain(
    kind: BlockKind, text: str, count: Count = estimate_line, items: Sequence[ContextItem] = ()
) -> Block:
    """Make a block of this text, such as the guardrails or the question."""
    return Block(kind=kind, tokens=count(text), chars=len(text), text=text, items=list(items))


def _gap(before: Entry | None, after: Entry | None) -> int:
    """1 if an ellipsis is between the two: under one heading, with something left out in between."""
    if before is None or after is None or before.group != after.group or after.neighbour_of is None:
        return 0
    return int(after.neighbour_of != before.place)


def _render(section: Section, entries: Sequence[Entry]) -> str:
    lines = [section.heading] if section.heading else []
    if section.fenced:
        lines.append(OPEN)
    before = None
    for entry in entries:
        if entry.group and (before is None or before.group != entry.group):
            lines.append(entry.group)
        elif _gap(before, entry):
            lines.append(ELLIPSIS)
        lines.append(entry.item.text)
        before = entry
    if section.fenced:
        lines.append(CLOSE)
    return "\n".join(lines)
