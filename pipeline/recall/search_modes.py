"""Search a chat: by meaning, by words, by both, by session, or for a literal text.

- `hybrid` finds messages by words and meaning, ranked as in a context; `components` add up to the score.
  `min_similarity` is compared with the cosine of message and query.
- `similar` finds the messages nearest in meaning; the score is the cosine.
- `exact` finds messages that contain a literal text, ignoring case, the newest first.
- `contextual` looks into the 3 best sessions only, and finds the 5 best messages of each with a neighbour on either
  side, and 2 related sessions. If no session fits it finds what `hybrid` does, with `fell_back`.
- `topic` finds the sessions that fit, in order of time, with their best messages.

`pipeline.recall.narrowing` defines the fit, which `min_similarity` is compared with.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.clients.by_space import Embedding
from pipeline.llm.gateway import Gateway
from pipeline.memories import statements
from pipeline.recall import refine, relevance
from pipeline.recall.find.candidates import retrieve
from pipeline.recall.find.retrieved import RetrievedSession, sharing_topics, worth
from pipeline.recall.gather import Narrowing, allowed, narrow
from pipeline.recall.pack.explain import as_line, message_hits, preview, rounded
from pipeline.recall.profiles import PROFILES
from pipeline.recall.rank.features import best_cosines
from pipeline.recall.rank.rank import Ranking, Scored, ranking_of
from pipeline.recall.relevance import LIMIT, By, evidence_of, judged_by
from pipeline.recall.request import Request, Stopwatch, for_search
from pipeline.store import identities, vectors
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database, on_replica
from pipeline.store.memories import memory_search
from pipeline.store.memories.memory_conditions import MemoryConditions
from pipeline.store.messages import message_rows
from pipeline.store.search import candidate_rows, text_search, vector_search
from pipeline.store.sessions import session_rows
from pipeline.text.excerpt import Wanted
from pipeline.text.languages import FALLBACK
from schemas.errors import NotFound
from schemas.memories import MemoryHit, MemoryQuery, MemoryResult
from schemas.search import Line, MessageHit, MoreQuery, MoreResult, SearchQuery, SearchResult, SessionHit
from schemas.sessions import Message
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, VectorSearch

EXACT_SCANNED = 100_000
"""Messages that `exact` reads before it reports how far back it searched; some 100 ms of work."""


@on_replica
def search(
    database: Database,
    tenant_id: str,
    query: SearchQuery,
    *,
    embedder: Embedding | None,
    settings: Settings,
    gateway: Gateway | None = None,
) -> SearchResult:
    """Search a chat's memory for at most `query.limit` messages or sessions.

    Never leaves the tenant and the chat. `embedder` is the process's own; without it, or when it does not answer, only
    keywords are searched and `degraded` says so. `gateway` leads to the language model for `query.hyde`. Where the
    chat's memory is off nothing is searched, and without session memory no sessions are; `degraded` says that.
    Raises `NotFound` for an unknown chat or session, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        request = for_search(connection, query)
        if not request.memory:
            return SearchResult(mode=query.mode, degraded=["memory: it is off here, so nothing is searched"])
        if query.mode in {"contextual", "topic"} and not settings.session_memory_enabled:
            off = "sessions: BACKSCROLL_SESSION_MEMORY_ENABLED is false, so none is searched"
            return SearchResult(mode=query.mode, degraded=[off])
        if query.mode == "exact":
            return _exact(connection, request, query)
    request = refine.embed(database, tenant_id, request, embedder, Stopwatch())
    if query.hyde:
        without = settings.switched_off("hyde")
        request = refine.with_answer(database, tenant_id, request, embedder, gateway, Stopwatch(), without)
    with database.tenant(tenant_id) as connection:
        if query.mode == "similar" and request.embedded is not None:
            return _similar(connection, request, query)
        answer = SearchResult(mode=query.mode, degraded=list(request.degraded))
        if query.mode == "topic":
            return answer.model_copy(update={"sessions": search_topic(connection, request, query)})
        if query.mode == "contextual":
            sessions, related = search_contextual(connection, request, query)
            if sessions:
                return answer.model_copy(update={"sessions": sessions, "related": related})
            answer = answer.model_copy(update={"fell_back": True})
        ranking = ranking_of(request, retrieve(connection, request))
        evidence = evidence_of(request, ranking.hits, ranking.retrieved)
        return answer.model_copy(
            update={
                "hits": _hybrid(connection, request, query, ranking),
                "vector_search": ranking.retrieved.vector_search,
                "evidence": evidence.level if evidence else None,
                "evidence_probability": evidence.probability if evidence else None,
            }
        )


def _hybrid(
    connection: Connection, request: Request, query: SearchQuery, ranking: Ranking
) -> list[MessageHit]:
    """Search by words and meaning, ranked as a context ranks: every neighbour counts, also one that is filtered out."""
    hits = allowed(connection, request, ranking.hits)
    if query.min_similarity is not None and request.embedded:
        hits = [hit for hit in hits if (hit.candidate.best_cosine or 0.0) >= query.min_similarity]
    best = [hit for hit in hits if hit.candidate.message.content.strip()][: query.limit]
    return [
        MessageHit(**dict(hit), role=scored.candidate.message.role, text=scored.candidate.message.content)
        for hit, scored in zip(message_hits(best, ranking.retrieved.arms), best, strict=True)
    ]


def _similar(connection: Connection, request: Request, query: SearchQuery) -> SearchResult:
    """Search by meaning only: the whole chat as a context does, or exactly among the messages of a filter."""
    searched: VectorSearch = "exact"
    by_query: list[Mapping[int, float]] = []
    for space, vector in filter(None, (terms.embedded for terms in request.queries)):
        if request.filter.is_open:
            near = vector_search.nearest(
                connection,
                request.scope,
                space,
                vector,
                messages=request.chat.message_count,
                limit=query.limit,
            )
            by_query.append(near.cosines)
            searched = near.search
        else:
            inside = text_search.nearest(
                connection, request.chat.chat_id, request.filter, space, vector, limit=query.limit
            )
            by_query.append(dict(inside))
    cosines = best_cosines(by_query)
    if query.min_similarity is not None:
        cosines = {message: cosine for message, cosine in cosines.items() if cosine >= query.min_similarity}
    messages = message_rows.by_id(connection, cosines)
    messages.sort(key=lambda message: (cosines[message.id], message.stamp), reverse=True)
    return SearchResult(
        mode=query.mode,
        hits=_hits(
            connection,
            request,
            [(m, cosines[m.id], {"meaning": round(cosines[m.id], 6)}) for m in messages[: query.limit]],
        ),
        vector_search=searched,
        degraded=list(request.degraded),
    )


def _exact(connection: Connection, request: Request, query: SearchQuery) -> SearchResult:
    """Search for literal text, in the newest `EXACT_SCANNED` messages and the rest of the session they begin in."""
    chat_id = request.chat.chat_id
    since = text_search.scan_from(connection, chat_id, EXACT_SCANNED, query.until)
    matches = text_search.exact(
        connection, chat_id, request.filter, query.query, since=since, limit=query.limit
    )
    beyond = since is not None and (query.since is None or query.since < since)
    return SearchResult(
        mode="exact",
        hits=_hits(connection, request, [(message, 1.0, {}) for message in matches], piece=query.query),
        searched_back_to=since if beyond and len(matches) < query.limit else None,
    )


def _hits(
    connection: Connection,
    request: Request,
    scored: Sequence[tuple[Message, float, dict[str, float]]],
    piece: str = "",
) -> list[MessageHit]:
    """Return scored messages as hits; the preview begins a little before `piece`."""
    ids = [message.id for message, _, _ in scored]
    session_of = candidate_rows.around(connection, request.scope, ids, 0) if ids else {}
    return [
        MessageHit(
            kind="message",
            id=str(message.id),
            external_id=message.external_id,
            session_id=session_of.get(message.id) or None,
            at=message.sent_at,
            speaker=message.speaker,
            preview=preview(message.content, piece),
            rank=number,
            score=round(score, 6),
            components=components,
            role=message.role,
            text=message.content,
        )
        for number, (message, score, components) in enumerate(scored, start=1)
    ]


MAX_SESSIONS, MAX_MESSAGES = 3, 5
"""Best sessions of a search that narrows to them, and best messages of each session, without neighbours."""


def search_topic(connection: Connection, request: Request, search: SearchQuery) -> list[SessionHit]:
    """Return the sessions on a topic in order of time, each with the messages that have to do with it."""
    narrowing = narrow(connection, request, sessions=search.limit, min_fit=search.min_similarity, each=True)
    lines = {
        session.id: _with_neighbours(connection, request, hits, 0)
        for session, hits in _best_messages(request, narrowing)
    }
    return sorted(_as_hits(narrowing.chosen, lines), key=lambda hit: hit.started_at)


def search_contextual(
    connection: Connection, request: Request, search: SearchQuery
) -> tuple[list[SessionHit], list[SessionHit]]:
    """Return the best sessions with their best messages and neighbours, none if none fits well, and related ones."""
    profile = PROFILES["contextual"]
    narrowing = narrow(connection, request, sessions=MAX_SESSIONS, min_fit=search.min_similarity)
    lines: dict[int, list[Line]] = {}
    left = search.limit
    for session, hits in _best_messages(request, narrowing):
        lines[session.id] = _with_neighbours(connection, request, hits[:left], profile.neighbours)
        left -= len(hits[:left])
    related = [session for _, session in sharing_topics(narrowing.chosen, narrowing.others)]
    return _as_hits(narrowing.chosen, lines), _as_hits(related[: profile.related])


def _best_messages(request: Request, narrowing: Narrowing) -> Iterator[tuple[RetrievedSession, list[Scored]]]:
    """Yield each chosen session with its best messages, those worth showing."""
    hits = narrowing.ranking.hits
    worths = zip(hits, relevance.worths(hits, None, judged_by(request)), strict=True)
    shown = [hit for hit, worth in worths if worth >= LIMIT and hit.candidate.message.content.strip()]
    for session in narrowing.chosen:
        yield session, [hit for hit in shown if hit.candidate.session == session.id][:MAX_MESSAGES]


def _with_neighbours(
    connection: Connection, request: Request, best: Sequence[Scored], reach: int
) -> list[Line]:
    """Return these messages with `reach` neighbours on either side, in order of time."""
    if not best:
        return []
    score = {hit.candidate.id: hit.score for hit in best}
    near = candidate_rows.around(connection, request.scope, list(score), reach)
    shown = [message for message in message_rows.by_id(connection, near) if message.content.strip()]
    return [as_line(message, score.get(message.id)) for message in sorted(shown, key=lambda m: m.stamp)]


def _as_hits(
    sessions: Sequence[RetrievedSession], lines: Mapping[int, list[Line]] = MappingProxyType({})
) -> list[SessionHit]:
    """Return sessions as hits of a search; `lines` are the messages to show of each."""
    return [
        SessionHit(
            session_id=session.id,
            rank=number,
            score=round(session.score, 6),
            components=rounded(session.components),
            started_at=session.started_at,
            ended_at=session.ended_at,
            message_count=session.message_count,
            topics=list(session.topics),
            summary=session.summary,
            messages=lines.get(session.id, []),
        )
        for number, session in enumerate(sessions, start=1)
    ]


@on_replica
def more(database: Database, tenant_id: str, query: MoreQuery, *, settings: Settings) -> MoreResult:
    """Fetch up to `query.limit` messages of a session, nearest to the shown ones, in order of time.

    `next` of the answer is the query of the next page, to be sent as it is. Without `shown` the pages start at the
    session's beginning. Raises `NotFound` for an unknown chat or session, or if memory is off there,
    `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chat = chats.require_current(connection, query.chat_id)
        row = session_rows.find(connection, query.session_id)
        if row is None or row.chat_id != chat.chat_id or not chat.memory:
            raise NotFound(f"there is no session {query.session_id} in {query.chat_id}")
        page, unseen = text_search.not_shown(
            connection,
            chat.chat_id,
            row.session_key,
            row.started_at,
            row.ended_at,
            query.shown,
            query.limit,
        )
    shown = [*query.shown, *(message.id for message in page)]
    remaining = unseen - len(page)
    return MoreResult(
        session_id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text if settings.session_memory_enabled else None,
        messages=[as_line(message) for message in page],
        remaining=remaining,
        next=query.model_copy(update={"session_id": row.id, "shown": shown}) if remaining else None,
    )


@on_replica
def search_memories(
    database: Database, tenant_id: str, query: MemoryQuery, *, embedder: Embedding | None
) -> MemoryResult:
    """Search for at most `query.limit` memories that are believed, best first.

    With `chat_id` only those that may be shown there. `embedder` is the process's own; without it, or when it does not
    answer, only keywords are searched and `degraded` says so. Raises `NotFound` for an unknown chat,
    `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        statements.seen_in(connection, query.chat_id, query.user_id)
        active = vectors.searched_space(connection)
    vectors_of, degraded = refine.embed_queries(active, embedder, [query.query], Stopwatch())
    space, vector = vectors_of.get(query.query, (None, None))
    with database.tenant(tenant_id) as connection:
        seen, here = statements.seen_in(connection, query.chat_id, query.user_id)
        conditions = MemoryConditions(
            scope=query.scope,
            user_ids=None if query.user_id is None else identities.ids_of(connection, query.user_id),
            agent_id=query.agent_id,
            types=query.types,
            source=query.source,
            min_importance=query.min_importance,
            metadata=query.metadata,
        )
        rows = memory_search.search(
            connection, conditions, seen, content=query.query, space=space, query=vector, as_of=query.as_of
        )
    probabilities, by = _relevance(query.query, rows, space)
    scored = [
        (row, value * math.prod(factors.values()), {"relevance": value, **factors})
        for row, value in zip(rows, probabilities, strict=True)
        if value >= LIMIT or query.fill
        for factors in [worth(row, row.at)]
    ]
    scored.sort(key=lambda entry: (-entry[1], entry[0].id))
    arms = _arms(rows)
    hits = [
        MemoryHit(
            rank=number,
            score=round(score, 6),
            components=rounded(parts),
            arms=arms.get(str(row.id), {}),
            memory=statements.as_memory(row, seen, here),
        )
        for number, (row, score, parts) in enumerate(scored[: query.limit], start=1)
    ]
    best = max(probabilities, default=None)
    level = relevance.level_of_text(best or 0.0, by)
    return MemoryResult(
        hits=hits,
        evidence="weak" if degraded and level == "none" else level,
        evidence_probability=None if best is None else round(best, 4),
        degraded=degraded,
    )


def _relevance(query: str, rows: Sequence[Row[Any]], space: EmbeddingSpace | None) -> tuple[list[float], By]:
    """Judge each row beside the others, its words as the search read them, and say by what it was judged.

    Its subject belongs to its words: a statement need not repeat whom it is about.
    """
    by: By = "both" if space is not None and space.questions is not None else "words"
    wanted = Wanted.of(query, FALLBACK)
    texts = [f"{row.subject}: {row.content}" if row.subject else row.content for row in rows]
    cosines = [row.cosine for row in rows]
    return relevance.texts(texts, cosines, wanted, by).tolist(), by


def _arms(rows: Sequence[Row[Any]]) -> dict[str, dict[str, int]]:
    """Return the rank of each row, by id, by its words and by its vector."""
    places: dict[str, dict[str, int]] = {}
    for arm, column in (("keywords", "words"), ("vectors", "cosine")):
        matching = [row for row in rows if row._mapping[column] is not None]
        for number, row in enumerate(sorted(matching, key=lambda row: -row._mapping[column]), start=1):
            places.setdefault(str(row.id), {})[arm] = number
    return places
