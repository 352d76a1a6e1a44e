"""Find the memories that may be shown to the asker, best first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.people import visibility
from pipeline.question import parse
from pipeline.ranking.model import OTHER_QUERY_WEIGHT
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import chats, identities, membership, memory_search
from pipeline.store.membership import Seen


@dataclass(frozen=True, kw_only=True)
class RetrievedMemory:
    """A memory that was found, with its final score."""

    id: str
    scope: str
    type: str
    content: str
    source: str
    document_id: str | None
    chunk_index: int | None
    score: float
    # the factors of the score
    components: Mapping[str, float] = field(default_factory=dict)
    # to a query's vector, as in `pipeline.ranking.model.Candidate`; None while it has none
    cosine: float | None = None
    # the name of whom it is about; empty: the asker, if it is a user's, or nobody by name
    about: str = ""
    # whether it is about the asker, and whether about somebody whom the question names
    of_asker: bool = False
    is_named: bool = False
    # by what it is linked to what the question names: `Lena by ‹Porto›`
    linked_to: str = ""
    since: datetime | None = None
    holds_from: datetime | None = None
    holds_until: datetime | None = None
    # the title of the chat that it is from, if that is another one
    chat_title: str = ""
    # the messages that say it
    evidence: frozenset[int] = frozenset()


def find_memories(
    connection: Connection, query: PreparedQuery, linked: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[RetrievedMemory], int]:
    """`(memories, hidden)`: unexpired memories for a question, best first, and how many may not be shown here.

    These are memories of the organization, this agent, the asker and people whom the question names, and of the chat's
    latest sessions, or of those of one key; of these also those `linked` to what the question names, by their ids; what
    was believed at the time that the request asks for. `hidden` is counted only for an explanation.
    """
    request, parameters = query.request, query.request.parameters
    wanted = parameters.memories + parameters.documents
    # without memories, do not look up who may see what: it takes a tenth of a context's time
    if not wanted or not request.prelude.has_memories:
        return [], 0
    seen = visibility.seen(connection, request.chat.chat_id, request.chat.kind, request.user_id)
    names = _named(connection, query, seen) if parameters.memories else {}
    by_query = []
    for number, each in enumerate(query.terms.queries):
        space, vector = each.embedded or (None, None)
        relevant = partial(
            memory_search.relevant,
            connection,
            scope=request.scope,
            seen=seen,
            agent_id=request.agent_id,
            named=names.keys() - seen.asker_ids,
            words=each.lexemes,
            space=space,
            query=vector,
            min_importance=parameters.min_importance,
            as_of=request.as_of,
            limit=4 * wanted,
        )
        rows = relevant()
        if linked and not number:
            rows += relevant(ids=list(linked))
        by_query.append([(row, OTHER_QUERY_WEIGHT if number else 1.0) for row in rows])
    hidden = 0
    if request.explain:
        hidden = memory_search.count_hidden(
            connection,
            scope=request.scope,
            seen=seen,
            agent_id=request.agent_id,
            min_importance=parameters.min_importance,
        )
    found = _best_first(by_query)
    titles = _titles(connection, query, seen, found)
    return _scored(query, seen, found, names, titles, linked), hidden


def _named(connection: Connection, query: PreparedQuery, seen: Seen) -> dict[str, str]:
    """Return the people whom the question names: what they are called, by each of their ids.

    They are in this chat, or in one whose memories may be shown here. They are named by a display name or a part of
    it, by their user's id, or by their sender's id without the platform.
    """
    rows = membership.names(connection, query.request.chat.chat_id, seen.visible.chats)
    ids = {row: {row.person, row.sender_id.partition(":")[2]} for row in rows}
    handles = {each for of_row in ids.values() for each in of_row if not each.isdigit()}
    # all at once: hundreds of people may have written here
    names = [(row.sender_name or "").strip() for row in rows]
    named = parse.named(query.request.text, names, handles, query.request.chat.language)
    called: dict[str, str] = {}
    for row, name in zip(rows, names, strict=True):
        if not named.isdisjoint({name, *ids[row]}) and not called.get(row.person):
            called[row.person] = row.sender_name or row.person
    return {each: name for person, name in called.items() for each in identities.ids_of(connection, person)}


def _titles(
    connection: Connection, query: PreparedQuery, seen: Seen, found: Sequence[tuple[Row[Any], float]]
) -> dict[str, str]:
    """Return what to call the other chats that memories are from, by the memories' ids."""
    here = query.request.chat.chat_id
    places = {str(row.id): seen.visible.source(row.learned_in, row.also_in, here) for row, _ in found}
    titles = chats.titles(connection, {place for place in places.values() if place not in {None, here}})
    return {each: titles.get(place, place) for each, place in places.items() if place and place != here}


def _best_first(by_query: Sequence[Sequence[tuple[Row[Any], float]]]) -> list[tuple[Row[Any], float]]:
    """Merge what each query found, each with the weight of its query."""
    if len(by_query) == 1:
        return list(by_query[0])
    return sorted(chain.from_iterable(by_query), key=lambda each: -each[0].similarity * each[1])


def _scored(
    query: PreparedQuery,
    seen: Seen,
    found: Sequence[tuple[Row[Any], float]],
    names: Mapping[str, str],
    titles: Mapping[str, str],
    linked: Mapping[str, str],
) -> list[RetrievedMemory]:
    """Score what was found, best first; each similarity counts by the weight beside it."""
    now = query.request.as_of or query.parsed.now
    half_life = query.request.parameters.qa_half_life_days
    # a person's memory may be stored under two of their ids, and be found by two queries
    unique = {
        (row.scope, row.user_id in seen.asker_ids, row.document_id, bytes(row.content_hash)): (row, weight)
        for row, weight in reversed(found)
    }
    newest_first = sorted(unique.values(), key=lambda each: each[0].id, reverse=True)
    scored = [
        RetrievedMemory(
            id=str(row.id),
            scope=row.scope,
            type=row.type,
            content=row.content,
            source=row.source,
            document_id=row.document_id,
            chunk_index=row.chunk_index,
            score=math.prod(factors.values()),
            components=factors,
            cosine=None if row.cosine is None else weight * row.cosine,
            about=row.subject or names.get(row.user_id or "", ""),
            of_asker=row.user_id in seen.asker_ids,
            is_named=row.user_id in names,
            linked_to=linked.get(str(row.id), ""),
            since=row.since,
            holds_from=row.holds_from,
            holds_until=row.holds_until,
            chat_title=titles.get(str(row.id), ""),
            evidence=frozenset(row.evidence),
        )
        for row, weight in newest_first
        # a session's memories are its history, similar or not; `memory_block.choose` decides on those of the asker
        # and of an agent's character
        if row.similarity > 0
        or row.scope in {"session", "user"}
        or row.type == "persona"
        or str(row.id) in linked
        for factors in [{"similarity": max(weight * row.similarity, 0.0), **worth(row, now, half_life)}]
    ]
    return sorted(scored, key=lambda memory: -memory.score)


MAX_ACCESSES = 20
"""Times that a memory was shown which raise its score; more raise it no further."""


def worth(memory: Any, now: datetime, qa_half_life_days: float) -> dict[str, float]:
    """Return what multiplies the similarity of a memory to its score, by name; without what is 1 for all of its kind.

    `similarity · (1 + 0.05·importance) · recency · access · confidence · unused · over`, where

    - `recency` is 1.1 for what was shown or, if never, written now, and falls to 1 in 30 days;
    - `access` is `1 + 0.2 · min(times shown, MAX_ACCESSES) / MAX_ACCESSES`;
    - `confidence` is `0.5 + 0.5 · confidence`;
    - `unused`, of a question with its answer, is `0.5 ** (days / qa_half_life_days)` since it was shown or written;
    - `over` is 0.5 for what does not hold any more.
    """
    age_days = max(0.0, (now - (memory.last_accessed_at or memory.created_at)).total_seconds() / 86_400)
    factors = {
        "importance": 1 + 0.05 * memory.importance,
        "recency": 1 + 0.1 * max(0.0, 1 - age_days / 30),
        "access": 1 + 0.2 * min(memory.access_count, MAX_ACCESSES) / MAX_ACCESSES,
        "confidence": 0.5 + 0.5 * memory.confidence,
    }
    if memory.type == "qa_turn":
        factors["unused"] = 0.5 ** (age_days / qa_half_life_days)
    if memory.holds_until is not None and memory.holds_until < now:
        factors["over"] = 0.5
    return factors
