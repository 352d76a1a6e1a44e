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

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding
from pipeline.llm.gateway import Gateway
from pipeline.recall import hyde
from pipeline.recall.ask.ask import Ask, parse_question
from pipeline.recall.ask.request import RetrievalRequest, Stopwatch, for_search
from pipeline.recall.message_ranking import allowed, evidence_of, rank_messages
from pipeline.recall.pack.hits import message_hits, preview
from pipeline.recall.prepare import prepare_query
from pipeline.recall.rank.ranked import Ranking
from pipeline.recall.rank.similarity import best_cosines
from pipeline.recall.session_search import search_contextual, search_topic
from pipeline.store.connections.database import Database
from pipeline.store.messages import messages
from pipeline.store.search import candidate_rows, text_search, vector_search
from schemas.search import MessageHit, SearchQuery, SearchResult
from schemas.sessions import Message
from schemas.settings import Settings
from schemas.vectors import VectorSearch

EXACT_SCANNED = 100_000
"""Messages that `exact` reads before it reports how far back it searched; some 100 ms of work."""


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
        parsed = parse_question(connection, request)
    prepared = prepare_query(database, tenant_id, parsed, embedder, Stopwatch())
    if query.hyde:
        without = settings.switched_off("hyde")
        prepared = hyde.with_answer(database, tenant_id, prepared, embedder, gateway, Stopwatch(), without)
    with database.tenant(tenant_id) as connection:
        if query.mode == "similar" and prepared.terms.embedded is not None:
            return _similar(connection, prepared, query)
        answer = SearchResult(mode=query.mode, degraded=list(prepared.degraded))
        if query.mode == "topic":
            return answer.model_copy(update={"sessions": search_topic(connection, prepared, query)})
        if query.mode == "contextual":
            sessions, related = search_contextual(connection, prepared, query)
            if sessions:
                return answer.model_copy(update={"sessions": sessions, "related": related})
            answer = answer.model_copy(update={"fell_back": True})
        ranking = rank_messages(connection, prepared)
        evidence = evidence_of(prepared, ranking.hits, ranking.retrieved)
        return answer.model_copy(
            update={
                "hits": _hybrid(connection, prepared, query, ranking),
                "vector_search": ranking.retrieved.vector_search,
                "evidence": evidence.level if evidence else None,
                "evidence_probability": evidence.probability if evidence else None,
            }
        )


def _hybrid(connection: Connection, prepared: Ask, query: SearchQuery, ranking: Ranking) -> list[MessageHit]:
    """Search by words and meaning, ranked as a context ranks: every neighbour counts, also one that is filtered out."""
    hits = allowed(connection, prepared, ranking.hits)
    if query.min_similarity is not None and prepared.terms.embedded:
        hits = [hit for hit in hits if (hit.candidate.best_cosine or 0.0) >= query.min_similarity]
    best = [hit for hit in hits if hit.candidate.text.strip()][: query.limit]
    return [
        MessageHit(**dict(hit), role=scored.candidate.role, text=scored.candidate.text)
        for hit, scored in zip(message_hits(best, ranking.retrieved.arms), best, strict=True)
    ]


def _similar(connection: Connection, prepared: Ask, query: SearchQuery) -> SearchResult:
    """Search by meaning only: the whole chat as a context does, or exactly among the messages of a filter."""
    request = prepared.request
    searched: VectorSearch = "exact"
    by_query: list[Mapping[int, float]] = []
    for space, vector in filter(None, (terms.embedded for terms in prepared.terms.queries)):
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
    cosines = dict(sorted(best_cosines(by_query).items(), key=lambda hit: -hit[1])[: query.limit])
    if query.min_similarity is not None:
        cosines = {message: cosine for message, cosine in cosines.items() if cosine >= query.min_similarity}
    by_id = {message.id: message for message in messages.by_id(connection, cosines)}
    return SearchResult(
        mode=query.mode,
        hits=_hits(
            connection,
            request,
            [(by_id[message], cosine, {"meaning": round(cosine, 6)}) for message, cosine in cosines.items()],
        ),
        vector_search=searched,
        degraded=list(prepared.degraded),
    )


def _exact(connection: Connection, request: RetrievalRequest, query: SearchQuery) -> SearchResult:
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
    request: RetrievalRequest,
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
