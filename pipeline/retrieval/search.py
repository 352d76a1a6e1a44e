"""Search a chat: by meaning, by words, by both, by session, or for the very characters.

- `hybrid` finds messages by words and meaning, ranked as in a context; `components` add up to the score. A
  `min_similarity` is compared with the cosine of message and query.
- `similar` finds the messages nearest in meaning; the score is the cosine.
- `exact` finds messages that hold these characters, in upper or lower case, the newest first.
- `contextual` finds the 3 best sessions, the 5 best messages of each with a neighbour on either side, and 2 related
  sessions. When no session fits by 0.5 or more it finds what `hybrid` does, and says so by `fell_back`.
- `topic` finds sessions that fit by 0.25 or more: the best first, or all in order of time where a time window is named.

How sessions are scored, and what fitting is, says `pipeline.retrieval.session_ranking`; `min_similarity` replaces 0.5
and 0.25.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from pipeline.clients.protocols import Embedder
from pipeline.ranking.model import Scored
from pipeline.retrieval import narrow, prepare, session_ranking
from pipeline.retrieval.hits import arms, message_hits
from pipeline.retrieval.scope import Searching, ranked
from pipeline.store import candidate_rows, identities, keyword_search, messages, sessions, text_search
from pipeline.store import vector_search as nearest
from pipeline.store.database import Database
from pipeline.store.filters import Inside, MessageFilter, Scope
from pipeline.text import truncate
from schemas.errors import NotFound
from schemas.payloads import ContextQuery
from schemas.search import MessageHit, SearchQuery, SearchResult
from schemas.sessions import Message
from schemas.settings import Settings

SCANNED = 100_000
"""Messages that `exact` reads before it says how far back it came; some 100 ms of work."""


def search(
    database: Database,
    tenant_id: str,
    query: SearchQuery,
    *,
    embedder: Embedder | None,
    settings: Settings,
) -> SearchResult:
    """What a chat's memory holds for a query: at most `query.limit` messages or sessions.

    Never leaves the tenant and the chat. `embedder` is the process's own; without it, or when it does not
    answer, keywords find alone and `degraded` says so. Where memory is off nothing is searched, and `degraded`
    says that. Raises `NotFound` for an unknown chat or session, `DatabaseUnavailable`.

        found = search(
            database,
            "default",
            SearchQuery(chat_id="telegram:-100420", query="boiler", mode="hybrid", roles=["user"]),
            embedder=embedder,
            settings=settings,
        )
        for hit in found.hits:
            print(hit.at, hit.speaker, hit.text)
    """
    context = ContextQuery(
        chat_id=query.chat_id,
        query=query.query,
        session_key=query.session_key,
        # what is ranked by meaning or characters alone asks for no time; what was asked is looked for like all else
        parameters={"aside": 0, **({"date": 0} if query.mode in {"exact", "similar"} else {})},
    )
    # the very characters need no model
    asked = prepare.ask(database, tenant_id, context, None if query.mode == "exact" else embedder, settings)
    # it may have another id now
    query = query.model_copy(update={"chat_id": asked.chat.chat_id})
    if not prepare.remembers(asked.chat, settings):
        return SearchResult(mode=query.mode, degraded=["memory: it is off here, so nothing is searched"])
    degraded = [] if query.mode == "exact" else asked.degraded
    with database.tenant(tenant_id) as connection:
        searching = Searching(
            connection=connection,
            query=query,
            asked=asked,
            scope=Scope(chat_id=query.chat_id, language=asked.chat.language, session_key=query.session_key),
            which=_filter(connection, query),
            words=keyword_search.lexemes(connection, asked.chat.language, asked.question.content),
        )
        match query.mode:
            case "exact":
                return _exact(searching)
            case "topic":
                return SearchResult(
                    mode=query.mode, sessions=session_ranking.on(searching), degraded=degraded
                )
            case "contextual":
                return _contextual(searching)
            case "similar" if asked.vector is not None:
                return _similar(searching)
            case _:
                return _hybrid(searching)


def _filter(connection: Connection, query: SearchQuery) -> MessageFilter:
    """What the query asks of a message. Raises `NotFound` for a session that is not of this chat."""
    inside = None
    if query.session_id is not None:
        row = sessions.find(connection, query.session_id)
        if row is None or row.chat_id != query.chat_id:
            raise NotFound(f"there is no session {query.session_id} in {query.chat_id}")
        inside = Inside(row.session_key, row.started_at, row.ended_at)
    senders = query.sender_ids
    if query.user_id is not None:
        theirs = identities.ids_of(connection, query.user_id)
        senders = theirs if senders is None else [sender for sender in senders if sender in theirs]
    return MessageFilter(
        sender_ids=senders,
        agent_id=query.agent_id,
        session_key=query.session_key,
        session=inside,
        roles=query.roles,
        since=query.since,
        until=query.until,
        metadata=query.metadata,
    )


def _hybrid(searching: Searching) -> SearchResult:
    """Words and meaning, ranked as a context ranks them: every neighbour counts, what is filtered is not shown."""
    asked, least = searching.asked, searching.query.min_similarity
    found = ranked(searching)
    hits = found.hits
    places = arms(hits)
    if not searching.which.is_open:
        ids = [hit.candidate.id for hit in hits]
        passing = text_search.allowed(searching.connection, searching.scope.chat_id, searching.which, ids)
        hits = [hit for hit in hits if hit.candidate.id in passing]
    if least is not None and asked.vector is not None:
        hits = [hit for hit in hits if (hit.candidate.cosine or 0.0) >= least]
    best = [hit for hit in hits if hit.candidate.text.strip()][: searching.query.limit]
    return SearchResult(
        mode=searching.query.mode,
        hits=_hits(best, places),
        vector_search=found.vector_search,
        degraded=asked.degraded,
    )


def _similar(searching: Searching) -> SearchResult:
    """Meaning alone: in all of a chat as a context compares, exactly among what a filter lets through."""
    asked, query, scope = searching.asked, searching.query, searching.scope
    if asked.space is None or asked.vector is None:
        raise RuntimeError("a search by meaning without a vector")
    if searching.which.is_open:
        near = nearest.nearest(
            searching.connection,
            scope,
            asked.space,
            asked.vector,
            messages=asked.chat.message_count,
            limit=query.limit,
        )
        cosines, vector_search = near.cosines, near.search
    else:
        inside = text_search.nearest(
            searching.connection, scope.chat_id, searching.which, asked.space, asked.vector, limit=query.limit
        )
        cosines, vector_search = dict(inside), "exact"
    least = -1.0 if query.min_similarity is None else query.min_similarity
    cosines = {identity: cosine for identity, cosine in cosines.items() if cosine >= least}
    found = {message.id: message for message in messages.by_id(searching.connection, cosines)}
    hits = _message_hits(
        searching,
        [(found[identity], cosine, {"meaning": round(cosine, 6)}) for identity, cosine in cosines.items()],
    )
    return SearchResult(
        mode=query.mode, hits=hits, vector_search=vector_search, degraded=searching.asked.degraded
    )


def _exact(searching: Searching) -> SearchResult:
    """The very characters, in the newest `SCANNED` messages and as many more as their last session holds."""
    query = searching.query
    since = text_search.scan_from(searching.connection, query.chat_id, SCANNED, query.until)
    found = text_search.exact(
        searching.connection, query.chat_id, searching.which, query.query, since=since, limit=query.limit
    )
    beyond = since is not None and (query.since is None or query.since < since)
    return SearchResult(
        mode="exact",
        hits=_message_hits(searching, [(message, 1.0, {}) for message in found], piece=query.query),
        searched_back_to=since if beyond and len(found) < query.limit else None,
    )


def _contextual(searching: Searching) -> SearchResult:
    """Sessions first, then what was said in them; the whole scope where no session fits."""
    found = narrow.narrowed(searching)
    if found is None:
        return _hybrid(searching).model_copy(update={"fell_back": True})
    return SearchResult(
        mode="contextual", sessions=found.sessions, related=found.related, degraded=searching.asked.degraded
    )


def _hits(best: Sequence[Scored], places: Mapping[int, dict[str, int]]) -> list[MessageHit]:
    return [
        MessageHit(**dict(hit), role=scored.candidate.role, text=scored.candidate.text)
        for hit, scored in zip(message_hits(best, places), best, strict=True)
    ]


def _message_hits(
    searching: Searching, found: Sequence[tuple[Message, float, dict[str, float]]], piece: str = ""
) -> list[MessageHit]:
    """Messages with their score as hits; the preview begins a little before `piece`."""
    ids = [message.id for message, _, _ in found]
    session_of = candidate_rows.around(searching.connection, searching.scope, ids, 0) if ids else {}
    return [
        MessageHit(
            kind="message",
            id=str(message.id),
            external_id=message.external_id,
            session_id=session_of.get(message.id) or None,
            at=message.sent_at,
            speaker=message.speaker,
            preview=_preview(message.content, piece),
            rank=number,
            score=round(score, 6),
            components=components,
            role=message.role,
            text=message.content,
        )
        for number, (message, score, components) in enumerate(found, start=1)
    ]


def _preview(content: str, piece: str) -> str:
    at = content.casefold().find(piece.casefold()) if piece else 0
    start = max(0, at - 60)
    return truncate.shortened((truncate.ELLIPSIS if start else "") + truncate.one_line(content[start:]), 160)
