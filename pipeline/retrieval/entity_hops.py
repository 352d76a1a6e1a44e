"""One hop in the entity graph: from the people, places and things that a question names to what is linked to them.

What is mentioned together with them leads to other messages and memories, which need not share a word with the
question. Only relations from chats that may be shown where it is asked are followed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlalchemy import Connection

from pipeline.people import visibility
from pipeline.retrieval.candidates import CandidateSet, extended, read_rows
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import entity_search, membership
from pipeline.store.entity_search import Near
from pipeline.text import entity_names

# Entities that a question names, what is one hop away from them, and what is linked to each of those …
MAX_NAMED, MAX_NEAR, MAX_LINKS = 8, 12, 30
# … of which so many messages become candidates.
LINKED_MESSAGES = 50

Key = TypeVar("Key", int, str)


@dataclass(frozen=True, kw_only=True)
class Link:
    """How something is linked to what a question names."""

    # 1 for what is linked best
    share: float
    # `Lena by ‹Porto›`
    reason: str


@dataclass(frozen=True, kw_only=True)
class Linked:
    """Messages and memories one hop away from what a question names, by their ids."""

    messages: Mapping[int, Link] = field(default_factory=dict)
    memories: Mapping[str, Link] = field(default_factory=dict)


def find_linked(connection: Connection, query: PreparedQuery) -> Linked:
    """Follow the relations of what the question names; nothing if `entity_hops` is 0, or with `as_of`."""
    request = query.request
    hops = request.parameters.entity_hops and request.as_of is None
    names = entity_names.asked(request.text, request.chat.language) if hops else []
    if not names:
        return Linked()
    present = request.prelude.present or membership.present(connection, request.chat.chat_id, request.user_id)
    seen = visibility.seen_by(present, request.chat.chat_id, request.chat.kind).visible
    chats = None if seen.everywhere else sorted(seen.chats)
    named = entity_search.named(connection, chats, names, MAX_NAMED)
    near = entity_search.near(connection, chats, list(named), MAX_NEAR) if named else []
    if not near:
        return Linked()
    ids = [each.id for each in near]
    messages = entity_search.linked_messages(
        connection, request.chat.chat_id, request.session_key, ids, MAX_LINKS
    )
    memories = entity_search.linked_memories(connection, chats, ids, MAX_LINKS)
    return Linked(messages=_links(messages, near, named), memories=_links(memories, near, named))


def _links(
    found: Iterable[tuple[int, Key]], near: Sequence[Near], named: Mapping[int, str]
) -> dict[Key, Link]:
    """Return what was found by its links: what several lead to counts the sum of their weights."""
    by_id = {each.id: each for each in near}
    leading = defaultdict[Key, list[Near]](list)
    for entity, key in found:
        leading[key].append(by_id[entity])
    sums = {key: sum(each.weight for each in by) for key, by in leading.items()}
    best = max(sums.values(), default=1.0)
    first = {key: max(by, key=lambda each: each.weight) for key, by in leading.items()}
    return {
        key: Link(share=sums[key] / best, reason=f"{named[by.named]} by ‹{by.name}›")
        for key, by in first.items()
    }


def with_linked(
    connection: Connection, query: PreparedQuery, found: CandidateSet, linked: Linked
) -> CandidateSet:
    """Add the linked messages to the candidates, and mark them all."""
    if not linked.messages:
        return found
    known = {candidate.id for candidate in found.candidates}
    best = sorted(linked.messages, key=lambda each: (-linked.messages[each].share, -each))
    new = [each for each in best[:LINKED_MESSAGES] if each not in known]
    if new:
        request = query.request
        rows = read_rows(connection, request.scope, new, query.terms)
        found = extended(found, rows, query.terms, request.chat.language)
    marked = [
        each._replace(linked=link.share, linked_to=link.reason)
        if (link := linked.messages.get(each.id))
        else each
        for each in found.candidates
    ]
    return replace(found, candidates=marked)
