"""Find the memories that may be shown to the asker, best first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.memories import entities
from pipeline.people import visibility
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.question.names import names_and_handles
from pipeline.recall.request import Request
from pipeline.store.chats.membership import Seen
from pipeline.store.memories import entity_graph, memory_candidates
from pipeline.store.memories.memory_candidates import FoundMemory, MemoryHits, MemoryScope
from pipeline.store.sessions import rollups, session_rows
from pipeline.text.duplicates import fingerprint
from schemas.sessions import EXTRACTIVE

# Latest sessions of a time that a question asks to sum up: more than a context has room for.
MAX_OVERVIEW_SESSIONS = 100
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class RetrievedSession:
    """A session that was found, with its final score."""

    id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    # whether a language model wrote the summary: an extractive one quotes, and says no more than its messages
    is_described: bool = field(default=False, kw_only=True)
    participants: Sequence[str]
    topics: Sequence[str]
    entities: Sequence[str]
    session_key: str
    message_count: int
    score: float = 0.0
    # the parts of the score
    components: Mapping[str, float] = field(default_factory=dict)
    # how well it fits a search that narrows to sessions, see `pipeline.recall.narrowing`
    fit: float = 0.0

    @property
    def about(self) -> str:
        """What it was about: its summary by a language model, or else its topics."""
        return (self.summary or "") if self.is_described else ", ".join(self.topics)


def load_sessions(
    connection: Connection, scored: Sequence[tuple[int, float, Mapping[str, float]]]
) -> list[RetrievedSession]:
    """Load the sessions of each `(id, score, components)`."""
    rows = {
        row.id: row
        for row in session_rows.cards_of_sessions(connection, [session for session, _, _ in scored])
    }
    return [
        _retrieved(row, score, components)
        for session, score, components in scored
        if (row := rows.get(session)) is not None
    ]


def load_overview(connection: Connection, request: Request) -> list[RetrievedSession]:
    """Load the sessions of the time that a question is about, in order; what was said later is left out."""
    spans = request.question.spans
    start, until = min(start for start, _ in spans), max(end for _, end in spans)
    rows = session_rows.cards_of_time(
        connection,
        request.chat.chat_id,
        start,
        min(until, request.as_of or until),
        session_key=request.session_key,
        limit=MAX_OVERVIEW_SESSIONS,
    )
    return [_retrieved(row) for row in rows if request.as_of is None or row.ended_at < request.as_of]


def _retrieved(
    row: Row[Any], score: float = 0.0, components: Mapping[str, float] = _NONE
) -> RetrievedSession:
    return RetrievedSession(
        id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text,
        is_described=row.summary_model not in (None, EXTRACTIVE),
        participants=row.participants,
        topics=row.topic_tags,
        entities=row.entities,
        session_key=row.session_key,
        message_count=row.message_count,
        score=score,
        components=components,
    )


def sharing_topics(
    chosen: Sequence[RetrievedSession], candidates: Sequence[RetrievedSession]
) -> list[tuple[list[str], RetrievedSession]]:
    """Return the candidates that share topics or entities with the chosen ones, and which, most shared first."""
    topics = {topic.casefold() for session in chosen for topic in (*session.topics, *session.entities)}
    shared = [
        (sorted({t for t in (*session.topics, *session.entities) if t.casefold() in topics}), session)
        for session in candidates
    ]
    return sorted((s for s in shared if s[0]), key=lambda s: (-len(s[0]), -s[1].score))


@dataclass(frozen=True, kw_only=True)
class RetrievedWeek:
    id: int
    monday: date
    started_at: datetime
    summary: str


def find_weeks(connection: Connection, request: Request) -> list[RetrievedWeek]:
    """Return the weeks of the times that a question names, in order; none where one key is asked about.

    A time of a few days has none: its sessions say more of it than a summary of the week.
    """
    times = [(start.date(), until.date()) for start, until in request.question.spans]
    times = [(first, until) for first, until in times if (until - first).days >= 7]
    if not times or request.session_key is not None:
        return []
    return [
        RetrievedWeek(
            id=row.id,
            monday=row.week,
            started_at=row.started_at,
            summary=row.summary_text,
        )
        for row in rollups.of_times(connection, request.chat.chat_id, times)
        if request.as_of is None or row.ended_at < request.as_of
    ]


MAX_NAMED, MAX_NEAR = 8, 12
"""Entities that a question names, and entities related to them."""
MAX_LINKS = 10
"""Memories of each of these entities."""


@dataclass(frozen=True, kw_only=True)
class RetrievedMemory(FoundMemory):
    """A memory that was found, with its final score; `cosine` counts by the weight of the query that found it."""

    score: float
    # the factors of the score
    components: Mapping[str, float] = field(default_factory=dict)
    # the name of the person it is about; empty: the asker, if it is a user's, or nobody by name
    about: str = ""
    # whether it is about the asker, and whether about somebody whom the question names
    of_asker: bool = False
    is_named: bool = False
    # the link to an entity that the question names: `Lena by home ‹Porto›`
    linked_to: str = ""
    # the title of the chat that it is from, if that is another one
    chat_title: str = ""


def memory_scope(request: Request) -> MemoryScope | None:
    """Return the memories that may answer a question; None if none are wanted or stored."""
    parameters, present = request.parameters, request.snapshot.present
    wanted = parameters.memories + parameters.documents
    if not wanted or present is None:
        return None
    seen = visibility.seen_by(present, request.chat.chat_id, request.chat.kind)
    return MemoryScope(
        scope=request.scope,
        seen=seen,
        agent_id=request.agent_id,
        named=_named(request, seen) if parameters.memories else {},
        min_importance=parameters.min_importance,
        as_of=request.as_of,
        limit=2 * wanted,
        counts_hidden=request.explain and present.only_chats is None,
    )


def find_linked(connection: Connection, request: Request, scope: MemoryScope | None) -> Mapping[str, str]:
    """Return the ids of linked memories, each with its link: `Lena by home ‹Porto›`; none without `entity_hops`.

    One hop in the entity graph leads to them: they need not share a word with the question. Only what may be shown
    where it is asked leads anywhere. `scope` is the question's `memory_scope`.
    """
    if scope is None or not request.parameters.entity_hops:
        return {}
    reached = entity_graph.reached(
        connection,
        scope.seen,
        names=entities.possible_names(request.question.text, request.chat.language),
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


def find_memories(
    connection: Connection,
    request: Request,
    scope: MemoryScope | None,
    by_query: Sequence[MemoryHits],
    linked: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[RetrievedMemory], int]:
    """Return the unexpired memories for a question, best first, and how many may not be shown here.

    These are memories of the organization, this agent, the asker, people whom the question names, and of
    the chat's latest sessions, or of those of one key; of these and of anybody also those
    `linked` to what the question names, by their ids; what was believed at the time that the request asks for. `scope`
    is its `memory_scope`, and `by_query` what the arms found for each query. Those not shown are counted only for an
    explanation.
    """
    if scope is None:
        return [], 0
    weighted: list[tuple[FoundMemory, float]] = []
    hidden, titles = 0, dict[str, str]()
    for number, (terms, hits) in enumerate(zip(request.queries, by_query, strict=True)):
        space, vector = terms.embedded or (None, None)
        relevant = partial(
            memory_candidates.believed, connection, scope, words=terms.lexemes, space=space, query=vector
        )
        results = [relevant(known=hits)]
        if not number:
            hidden = results[0].hidden
            results += [relevant(ids=list(linked))] if linked else []
        for result in results:
            titles |= result.titles
            weighted += [(row, OTHER_QUERY_WEIGHT if number else 1.0) for row in result.found]
    return _scored(request, scope, weighted, titles, linked), hidden


def _named(request: Request, seen: Seen) -> dict[str, str]:
    """Return the names of the people whom the question names, by each of their ids.

    They are in this chat, or in one whose memories may be shown here. They are named by a display name or a part of
    it, by their user's id, or by their sender's id without the platform.
    """
    here = request.chat.chat_id
    members = [member for member in request.snapshot.members if member.chat_id in {here, *seen.visible.chats}]
    ids = [{member.person, member.sender_id.partition(":")[2]} for member in members]
    handles = {id_ for person_ids in ids for id_ in person_ids if not id_.isdigit()}
    # all at once: hundreds of people may have written here
    names = [(member.sender_name or "").strip() for member in members]
    named = names_and_handles(request.question.text, names, handles, request.chat.language)
    called: dict[str, str] = {}
    linked: dict[str, Sequence[str]] = {}
    for member, member_ids, name in zip(members, ids, names, strict=True):
        if not named.isdisjoint({name, *member_ids}) and not called.get(member.person):
            called[member.person] = member.sender_name or member.person
            linked[member.person] = member.linked
    return {id_: name for person, name in called.items() for id_ in (person, *linked[person])}


def _scored(
    request: Request,
    scope: MemoryScope,
    weighted: Sequence[tuple[FoundMemory, float]],
    titles: Mapping[str, str],
    linked: Mapping[str, str],
) -> list[RetrievedMemory]:
    """Score memories, best first; each similarity counts by its weight."""
    seen, names = scope.seen, scope.named
    now, here = request.now, request.chat.chat_id
    # a person's memory may be stored under two of their ids, and be found by two queries: the most similar counts
    unique = {
        (row.scope, row.user_id in seen.asker_ids, row.document_id, fingerprint(row.content)): (row, weight)
        for row, weight in sorted(weighted, key=lambda pair: -pair[0].similarity * pair[1])[::-1]
    }
    newest_first = sorted(unique.values(), key=lambda pair: pair[0].id, reverse=True)
    scored = [
        RetrievedMemory(
            **(vars(row) | {"cosine": None if row.cosine is None else weight * row.cosine}),
            score=math.prod(factors.values()),
            components=factors,
            about=row.subject or names.get(row.user_id or "", ""),
            of_asker=row.user_id in seen.asker_ids,
            is_named=row.user_id in names,
            linked_to=linked.get(row.id, ""),
            chat_title="" if place is None or place == here else titles.get(place, place),
        )
        for row, weight in newest_first
        # a session's memories are its history, similar or not; `choose.known` decides on those of the asker
        # and of an agent's character
        if row.similarity > 0 or row.scope in {"session", "user"} or row.type == "persona" or row.id in linked
        for factors in [{"similarity": max(weight * row.similarity, 0.0), **worth(row, now)}]
        for place in [seen.visible.source(row.learned_in, row.also_in, here)]
    ]
    return sorted(scored, key=lambda memory: -memory.score)


QA_HALF_LIFE_DAYS = 30
"""Days after which a question with its answer that is not shown again counts half."""


def worth(memory: Any, now: datetime) -> dict[str, float]:
    """Return the factors by name that turn a memory's similarity into its score, without those that do not apply.

    `similarity · (1 + 0.05·importance) · recency · confidence · unused · over`, where

    - `recency` is 1.1 for what was shown or, if never, written now, and falls to 1 in 30 days;
    - `confidence` is `0.5 + 0.5 · confidence`;
    - `unused`, of a question with its answer, is `0.5 ** (days / QA_HALF_LIFE_DAYS)` since it was shown or written;
    - `over` is 0.5 for a statement that no longer holds.
    """
    age_days = max(0.0, (now - (memory.last_accessed_at or memory.created_at)).total_seconds() / 86_400)
    factors = {
        "importance": 1 + 0.05 * memory.importance,
        "recency": 1 + 0.1 * max(0.0, 1 - age_days / 30),
        "confidence": 0.5 + 0.5 * memory.confidence,
    }
    if memory.type == "qa_turn":
        factors["unused"] = 0.5 ** (age_days / QA_HALF_LIFE_DAYS)
    if memory.holds_until is not None and memory.holds_until < now:
        factors["over"] = 0.5
    return factors
