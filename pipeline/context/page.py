"""A context as it is filled: its blocks, and what is left of the budget. Pure."""

from collections.abc import Sequence

from pipeline.context import packing
from pipeline.context.packing import Section
from pipeline.text.tokens import Count, estimate_line
from schemas.context import Block, BlockKind, ContextItem, Dropped

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
        packed = packing.fill(section, self.room - keep_free, self.count, explained=self.explained)
        self.dropped.extend(packed.dropped)
        if packed.block is not None:
            self.put(packed.block)

    def fill_in_turn(self, sections: Sequence[Section], *, keep_free: int = 0) -> None:
        """Add what fits of several sections, the highest score first, in whichever of them it is."""
        for packed in packing.fill_in_turn(
            sections, self.room - keep_free, self.count, explained=self.explained
        ):
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
