"""Put what was found under a token budget: entries in order of worth, shown in order of time.

Pure and deterministic. A block takes the entries that fit, the best first, and says of each other why it is
not there, if anybody asks. A line is counted with its end (`pipeline.text.tokens`), so the tokens of a context are the
sum of those of its lines.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.tokens import Count, estimate_line
from pipeline.text.truncate import ELLIPSIS
from schemas.context import Block, BlockKind, ContextItem, Dropped, DropReason

# After so many entries in a row that did not fit, smaller ones further down would only be noise.
MISSES = 3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line that a block may show."""

    item: ContextItem
    # where it stands: groups by their first place, entries inside by theirs
    place: tuple[object, ...]
    # entries of one group stand under one heading
    group: str = ""
    # whether something is left out between it and the entry before it, when that is not this one's neighbour
    neighbour_of: tuple[object, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Section:
    """A block to be: its heading, and what it may show, the most worthy first."""

    kind: BlockKind
    heading: str
    # what is left out whatever the budget among them; they may be made as they are taken, and taken once
    entries: Iterable[Entry | Dropped]
    # tokens that it may take of the budget, heading included
    cap: int
    # recalled text stands in a fence
    fenced: bool = True
    # nothing may be missing in between: stop at the first entry that does not fit
    contiguous: bool = False


@dataclass(kw_only=True)
class Filled:
    """A block as it came out, and what did not get in."""

    block: Block | None
    dropped: list[Dropped] = field(default_factory=list)


def fill(section: Section, room: int, count: Count = estimate_line, *, explained: bool = True) -> Filled:
    """The block that fits into `room` tokens and the section's own cap; no block when nothing fits.

    Where nobody asks why (not `explained`) no entry is taken once the block is full, and so not all that is
    dropped is listed.
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
        if misses >= (1 if section.contiguous else MISSES):
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
    dropped = left_out + dropped
    if not chosen:
        return Filled(block=None, dropped=dropped)
    text = _render(section, chosen)
    items = [entry.item for entry in chosen]
    block = Block(kind=section.kind, tokens=count(text), chars=len(text), text=text, items=items)
    return Filled(block=block, dropped=dropped)


def _gap(before: Entry | None, after: Entry | None) -> int:
    """1 when an ellipsis stands between the two: under one heading, and something was said in between."""
    if before is None or after is None or before.group != after.group or after.neighbour_of is None:
        return 0
    return int(after.neighbour_of != before.place)


def plain(kind: BlockKind, text: str, count: Count = estimate_line) -> Block:
    """A block of one text that is not recalled, such as the guardrails or the question."""
    return Block(kind=kind, tokens=count(text), chars=len(text), text=text)


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
