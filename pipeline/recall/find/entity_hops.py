"""One hop in the entity graph: from who and what a question names to the memories of that and of what it is related to.

These need not share a word with the question. Only what may be shown where it is asked leads anywhere.
"""

from collections.abc import Mapping

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.store.memories import entity_graph
from pipeline.store.memories.memory_candidates import MemoryScope
from pipeline.text import entity_names

MAX_NAMED, MAX_NEAR = 8, 12
"""Entities that a question names, and what is related to them."""
MAX_LINKS = 10
"""Memories of each of these."""


def find_linked(connection: Connection, query: Ask, scope: MemoryScope | None) -> Mapping[str, str]:
    """Return the linked memories by their ids, each with how: `Lena by home ‹Porto›`; none without `entity_hops`.

    `scope` is the question's `memory_scope`.
    """
    request = query.request
    if scope is None or not request.parameters.entity_hops:
        return {}
    reached = entity_graph.reached(
        connection,
        scope.seen,
        names=entity_names.asked(request.text, request.chat.language),
        users=sorted(scope.named),
        as_of=request.as_of,
        named=MAX_NAMED,
        near=MAX_NEAR,
        links=MAX_LINKS,
    )
    return {
        str(row.memory_id): f"{row.named} by {row.relation} ‹{row.name}›" if row.name else row.named
        for row in reached
    }
