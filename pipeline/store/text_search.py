"""SQL of the search modes: what a filter lets through, exact substrings, sessions on a theme, what is left of one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.ranking.bm25 import K1, B
from pipeline.store.filters import Filter
from pipeline.store.keyword_search import any_of
from pipeline.store.messages import COLUMNS, NEWEST_FIRST, ORDER, as_message
from pipeline.store.vectors import distance, in_space, literal
from schemas.sessions import Message
from schemas.vectors import EmbeddingSpace, Vector

_IN_ORDER = text(f"SELECT {COLUMNS} FROM messages WHERE id = ANY(:ids) ORDER BY {ORDER}")


def allowed(connection: Connection, chat_id: str, which: Filter, ids: Sequence[int]) -> set[int]:
    """Those of these messages that a filter lets through."""
    rows = connection.execute(
        text(f"SELECT id FROM messages WHERE {which.conditions()} AND id = ANY(:ids)").bindparams(
            *which.parameters()
        ),
        {"chat": chat_id, "ids": list(ids), **which.given()},
    )
    return {row[0] for row in rows}


def keywords(
    connection: Connection, chat_id: str, which: Filter, words: Sequence[str], *, mean_size: float, limit: int
) -> list[int]:
    """The `limit` best by BM25 of the messages that a filter lets through, best first.

    The statistics are those of the messages that pass; of their mean length the chat's, `mean_size`, speaks.
    """
    if not words:
        return []
    rows = connection.execute(
        text(f"""
            WITH scope AS MATERIALIZED (
                SELECT id, tsv, length(tsv) AS size FROM messages WHERE {which.conditions()}
            ), frequency AS (
                SELECT scope.id, scope.size, t.lexeme, cardinality(t.positions) AS tf
                FROM scope CROSS JOIN LATERAL unnest(scope.tsv) t
                WHERE scope.tsv @@ CAST(:any AS tsquery) AND t.lexeme = ANY(:lexemes)
            ), documents AS (
                SELECT lexeme, count(*) AS df, (SELECT CAST(count(*) AS float8) FROM scope) AS n
                FROM frequency GROUP BY lexeme
            )
            SELECT id FROM frequency JOIN documents USING (lexeme) GROUP BY id
            ORDER BY sum(ln(1 + (n - df + 0.5) / (df + 0.5))
                * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / :mean_size))) DESC, id DESC LIMIT :limit
        """).bindparams(*which.parameters()),
        {
            "chat": chat_id,
            "any": any_of(words),
            "lexemes": list(words),
            "mean_size": max(mean_size, 1.0),
            "limit": limit,
            **which.given(),
        },
    )
    return [row[0] for row in rows]


def nearest(
    connection: Connection, chat_id: str, which: Filter, space: EmbeddingSpace, query: Vector, *, limit: int
) -> list[tuple[int, float]]:
    """`(message, cosine)` of the `limit` nearest that a filter lets through, compared exactly, nearest first."""
    rows = connection.execute(
        text(f"""
            WITH scope AS MATERIALIZED (
                SELECT message_id, 1 - ({distance(space.dimensions)}) AS cosine
                FROM message_vectors WHERE {in_space(space)} AND chat_id = :chat
                    AND message_id IN (SELECT id FROM messages WHERE {which.conditions()}))
            SELECT message_id, cosine FROM scope ORDER BY cosine DESC, message_id DESC LIMIT :limit
        """).bindparams(*which.parameters()),
        {"chat": chat_id, "query": literal(query), "limit": limit, **which.given()},
    )
    return [(row[0], float(row[1])) for row in rows]


_SCAN_FROM = text("""
    WITH running AS (
        SELECT started_at, sum(message_count) OVER (ORDER BY ended_at DESC, id DESC) AS held,
            row_number() OVER (ORDER BY ended_at DESC, id DESC) AS place
        FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged'
            AND (CAST(:until AS timestamptz) IS NULL OR started_at < :until)
    )
    SELECT min(started_at) FILTER (WHERE held <= :messages OR place = 1),
        bool_and(held <= :messages OR place = 1) FROM running
""")


def scan_from(connection: Connection, chat_id: str, messages: int, until: datetime | None) -> datetime | None:
    """From when on a chat's sessions hold at most so many messages, until a moment; None: that is all of them.

    The newest session counts whatever its size.
    """
    row = connection.execute(_SCAN_FROM, {"chat": chat_id, "messages": messages, "until": until}).one()
    found: datetime | None = row[0]
    return None if row[1] is None or row[1] else found


def exact(
    connection: Connection, chat_id: str, which: Filter, piece: str, *, since: datetime | None, limit: int
) -> list[Message]:
    """Messages that hold these very characters, upper or lower case, newest first."""
    scanned = "" if since is None else "AND sent_at >= :scan_from"
    rows = connection.execute(
        text(f"""
            SELECT {COLUMNS} FROM messages
            WHERE {which.conditions()} {scanned} AND content ILIKE :pattern ESCAPE '!'
            ORDER BY {NEWEST_FIRST} LIMIT :limit
        """).bindparams(*which.parameters()),
        {
            "chat": chat_id,
            "pattern": pattern(piece),
            "limit": limit,
            **({} if since is None else {"scan_from": since}),
            **which.given(),
        },
    )
    return [as_message(row) for row in rows]


def resembling(
    connection: Connection, chat_id: str, which: Filter, parts: Sequence[str], *, newest: int, limit: int
) -> list[tuple[int, str]]:
    """`(message, text)` of messages that hold these parts in this order with anything in between, newest first.

    No more than the `newest` of those that the filter lets through are read.
    """
    rows = connection.execute(
        text(f"""
            SELECT id, content FROM (
                SELECT id, sent_at, content FROM messages WHERE {which.conditions()}
                ORDER BY sent_at DESC, id DESC LIMIT :newest) AS read
            WHERE content ILIKE :pattern ESCAPE '!'
            ORDER BY sent_at DESC, id DESC LIMIT :limit
        """).bindparams(*which.parameters()),
        {
            "chat": chat_id,
            "pattern": "".join(map(pattern, parts)),
            "newest": newest,
            "limit": limit,
            **which.given(),
        },
    )
    return [(row[0], row[1]) for row in rows]


def pattern(piece: str) -> str:
    """What LIKE with the escape `!` matches wherever these characters stand.

    >>> pattern("100%_sure!")
    '%100!%!_sure!!%'
    """
    for special in "!%_":
        piece = piece.replace(special, f"!{special}")
    return f"%{piece}%"


_SESSIONS_ABOUT = text("""
    SELECT id, session_key, started_at, ended_at, message_count,
        CASE WHEN tsv @@ CAST(:any AS tsquery) THEN
            (SELECT array_agg(lexeme) FROM unnest(tsv) WHERE lexeme = ANY(:lexemes)) END AS words
    FROM conversation_sessions
    WHERE chat_id = :chat AND status <> 'merged'
        AND (CAST(:key AS text) IS NULL OR session_key = :key)
        AND (CAST(:session AS bigint) IS NULL OR id = :session)
        AND (CAST(:since AS timestamptz) IS NULL OR ended_at >= :since)
        AND (CAST(:until AS timestamptz) IS NULL OR started_at < :until)
""")


def sessions_about(
    connection: Connection,
    chat_id: str,
    words: Sequence[str],
    *,
    session_key: str | None,
    session_id: int | None,
    since: datetime | None,
    until: datetime | None,
) -> Sequence[Row[Any]]:
    """All sessions of a scope, with those of the lexemes that their summaries hold."""
    return connection.execute(
        _SESSIONS_ABOUT,
        {
            "chat": chat_id,
            "any": any_of(words),
            "lexemes": list(words),
            "key": session_key,
            "session": session_id,
            "since": since,
            "until": until,
        },
    ).all()


_NOT_SHOWN = text(f"""
    WITH placed AS (
        SELECT id, id = ANY(:shown) AS known, row_number() OVER (ORDER BY {ORDER}) AS place
        FROM messages
        WHERE chat_id = :chat AND session_key = :key AND sent_at BETWEEN :start AND :end AND content <> ''
    ), around AS (
        SELECT id, known, place,
            place - max(place) FILTER (WHERE known) OVER (ORDER BY place) AS after,
            min(place) FILTER (WHERE known) OVER (ORDER BY place DESC) - place AS before
        FROM placed
    ), near AS (
        SELECT id, count(*) OVER () AS there, place,
            row_number() OVER (ORDER BY coalesce(least(after, before), place), place) AS turn
        FROM around WHERE NOT known
    )
    SELECT array_agg(id) FILTER (WHERE turn <= :limit), coalesce(max(there), 0) FROM near
""")


def not_shown(
    connection: Connection,
    chat_id: str,
    session_key: str,
    start: datetime,
    end: datetime,
    shown: Sequence[int],
    limit: int,
) -> tuple[list[Message], int]:
    """`(messages, how many there are)` of a session beside those shown: the nearest to one of them, in order.

    With nothing shown the session's beginning. Of two as near the earlier comes first. Messages without text
    are left out.
    """
    row = connection.execute(
        _NOT_SHOWN,
        {
            "chat": chat_id,
            "key": session_key,
            "start": start,
            "end": end,
            "shown": list(shown),
            "limit": limit,
        },
    ).one()
    rows = connection.execute(_IN_ORDER, {"ids": row[0] or []})
    return [as_message(found) for found in rows], int(row[1])
