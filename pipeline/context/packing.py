"""Fit blocks into a token budget: entries in order of worth, shown in order of time. Pure.

A block takes the entries that fit, the best first, and gives the reason for each that it leaves out. Tokens are counted
by line, line ends included (`pipeline.text.tokens`), so the tokens of a context are the sum of those of its lines.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
# After this many entries in a row that did not fit, smaller ones further down would only be noise.
MAX_MISSES = 3


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
    limit = min(room, section.cap)
    spent = count(section.heading) + (count(OPEN) + count(CLOSE) if section.fenced else 0)
    chosen: list[Entry] = []
    groups: set[str] = set()
    left_out: list[Dropped] = []
    dropped: list[Dropped] = []
    misses = 0
    reason: DropReason = "cap"
    ellipsis_tokens = count(ELLIPSIS)
    for entry in section.entries:
        if isinstance(entry, Dropped):
            left_out.append(entry)
            continue
        kind = "memory" if entry.item.kind == "document" else entry.item.kind
        if misses >= (1 if section.contiguous else MAX_MISSES):
            if not explained:
                break
            dropped.append(Dropped(kind=kind, id=entry.item.id, reason=reason))
            continue
        at = bisect_left(chosen, entry.place, key=lambda e: e.place)
        before = chosen[at - 1] if at else None
        after = chosen[at] if at < len(chosen) else None
        gaps = _gap(before, entry) + _gap(entry, after) - _gap(before, after)
        heading = count(entry.group) if entry.group and entry.group not in groups else 0
        cost = count(entry.item.text) + heading + gaps * ellipsis_tokens
        if spent + cost > limit:
            misses += 1
            reason = "budget" if spent + cost > room else "cap"
            dropped.append(Dropped(kind=kind, id=entry.item.id, reason=reason))
            continue
        spent, misses = spent + cost, 0
        chosen.insert(at, entry)
        groups.add(entry.group)
    block = None
    if chosen:
        block = plain(section.kind, _render(section, chosen), count, [entry.item for entry in chosen])
    return PackedBlock(block=block, dropped=left_out + dropped)


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
