"""Pack chosen lines into the token budget: one greedy pass in order of worth, shown in order of time. Pure.

Tokens are counted by line, line ends included (`pipeline.text.tokens`), so the tokens of a context are the sum of those
of its lines.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import get_args

from pipeline.recall.choose.line import Frame, Line
from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.tokens import Count, estimate_line
from pipeline.text.truncate import ELLIPSIS
from schemas.context import Block, BlockKind, Dropped, DropReason

# After this many lines in a row that did not fit, smaller ones further down would be noise.
MAX_MISSES = 3
# The first line of a block may be cut if this many tokens of it fit; later ones are taken whole or not at all.
MIN_CUT_TOKENS = 16


def pack(
    lines: Iterable[Line],
    frames: Mapping[BlockKind, Frame],
    budget: int,
    count: Count = estimate_line,
    fixed: Iterable[Block] = (),
) -> tuple[list[Block], list[Dropped]]:
    """Fill blocks with lines, the most worth first, until nothing more fits; `fixed` blocks are in already.

    Returns the blocks in reading order, and the lines that did not fit.
    """
    room = budget - sum(block.tokens for block in fixed)
    open_blocks: dict[BlockKind, _OpenBlock] = {}
    dropped = []
    shown: set[tuple[str, str]] = set()
    for line in sorted(lines, key=lambda line: -line.worth):
        key = line.kind, line.id
        if key in shown:
            # it is already in another block, where it was worth more
            continue
        if line.block not in open_blocks:
            open_blocks[line.block] = _OpenBlock(frames[line.block], budget, count)
        spent = open_blocks[line.block].offer(line, budget, room)
        if isinstance(spent, int):
            room -= spent
            shown.add(key)
        else:
            kind = "memory" if line.kind == "document" else line.kind
            dropped.append(Dropped(kind=kind, id=line.id, reason=spent))
    blocks = {block.kind: block for block in fixed}
    blocks |= {kind: block.closed(kind) for kind, block in open_blocks.items() if block.shown}
    return [blocks[kind] for kind in get_args(BlockKind) if kind in blocks], dropped


def plain(kind: BlockKind, text: str, count: Count) -> Block:
    """Make a block of this text, such as the guardrails or the question."""
    return Block(kind=kind, tokens=count(text), chars=len(text), text=text)


class _OpenBlock:
    """A block that is being filled."""

    def __init__(self, frame: Frame, budget: int, count: Count) -> None:
        self.frame = frame
        self.cap = int(min(frame.share * budget, budget if frame.cap is None else frame.cap))
        self.count = count
        # in order of place, with their texts
        self.shown: list[tuple[Line, str]] = []
        self.tokens = 0
        self.misses = 0
        self.around = sum(map(count, (frame.heading, OPEN, CLOSE)))
        self.ellipsis = count(ELLIPSIS)

    def offer(self, line: Line, budget: int, room: int) -> int | DropReason:
        """Take a line if it fits, cut if need be; return the tokens that it takes, or why it is left out."""
        if self.misses > (0 if self.frame.contiguous else MAX_MISSES - 1):
            return "budget"
        at = bisect_left(self.shown, line.place, key=lambda pair: pair[0].place)
        before = self.shown[at - 1][0] if at else None
        after = self.shown[at][0] if at < len(self.shown) else None
        around = self._between(before, line) + self._between(line, after) - self._between(before, after)
        around += 0 if self.shown else self.around
        free = min(room, self.cap - self.tokens) - around
        text = line.write(max(budget // line.shares, line.least))
        size = self.count(text)
        if size > free >= MIN_CUT_TOKENS and line.may_be_cut and not self.shown:
            text = line.write(free)
            size = self.count(text)
        if size > free:
            self.misses += 1
            return "budget" if size + around > room else "cap"
        self.tokens, self.misses = self.tokens + size + around, 0
        self.shown.insert(at, (line, text))
        return size + around

    def closed(self, kind: BlockKind) -> Block:
        """Return the block."""
        lines, before = [self.frame.heading, OPEN], None
        for line, text in self.shown:
            if before is None or before.group != line.group:
                lines += [line.group] if line.group else []
            elif _has_gap(before, line):
                lines.append(ELLIPSIS)
            lines.append(text)
            before = line
        text = "\n".join((*lines, CLOSE))
        # by the estimate a text takes what its lines take
        tokens = self.tokens if self.count is estimate_line else self.count(text)
        items = [line.item(text) for line, text in self.shown]
        return Block(kind=kind, tokens=tokens, chars=len(text), text=text, items=items)

    def _between(self, before: Line | None, after: Line | None) -> int:
        """Return the tokens of the heading or ellipsis between two lines."""
        if after is None:
            return 0
        if before is None or before.group != after.group:
            return self.count(after.group) if after.group else 0
        return self.ellipsis if _has_gap(before, after) else 0


def _has_gap(before: Line, after: Line) -> bool:
    """Return whether something is left out between two lines under one heading."""
    return after.follows is not None and after.follows != before.place
