"""SQL of the search modes: what a filter lets through, exact substrings, what is left of a session."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run
from pipeline.store.messages.message_rows import COLUMNS, NEWEST_FIRST, ORDER, as_message
from pipeline.store.search.filters import MessageFilter
from pipeline.store.search.keyword_search import K1, B, any_of
from pipeline.store.search.vector_search import best_chunks
from pipeline.store.sessions.session_rows import LAST_BEGUN_FIRST
from pipeline.store.vectors import cosine, distance, halved, in_space
from schemas.sessions import Message
from schemas.vectors import EmbeddingSpace, Vector

# The statistics are those of the messages that pass the filter; only the mean length is the chat's.
_KEYWORDS = f"""
    WITH scope AS MATERIALIZED (
        SELECT id, sent_at, tsv, length(tsv) AS size FROM messages WHERE {{allowed}}
    ), frequency AS (
        SELECT scope.id, scope.sent_at, scope.size, t.lexeme, cardinality(t.positions) AS tf
        FROM scope CROSS JOIN LATERAL unnest(scope.tsv) t
        WHERE scope.tsv @@ CAST(:any AS tsquery) AND t.lexeme = ANY(:lexemes)
    ), documents AS (
        SELECT lexeme, count(*) AS df, (SELECT CAST(count(*) AS float8) FROM scope) AS n
        FROM frequency GROUP BY lexeme
    )
    SELECT id FROM frequency JOIN documents USING (lexeme) GROUP BY id, sent_at
    ORDER BY CAST(sum(ln(1 + (n - df + 0.5) / (df + 0.5))
        * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / :mean_size))) AS real) DESC, sent_at DESC
    FETCH FIRST (:limit) ROWS WITH TIES
"""
_SCAN_FROM = text(f"""
    WITH running AS (
        SELECT started_at, sum(message_count) OVER latest AS held, row_number() OVER latest AS place
        FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged'
            AND (CAST(:until AS timestamptz) IS NULL OR started_at < :until)
        WINDOW latest AS (ORDER BY ended_at DESC, {LAST_BEGUN_FIRST})
    )
    SELECT min(started_at) FILTER (WHERE held <= :messages OR place = 1),
        bool_and(held <= :messages OR place = 1) FROM running
""")
_EXACT = f"""
    SELECT {COLUMNS} FROM messages
    WHERE {{allowed}} AND sent_at >= :scan_from AND content ILIKE :pattern ESCAPE '!'
    ORDER BY {NEWEST_FIRST} LIMIT :limit
"""
_RESEMBLING = f"""
    SELECT piece.place - 1, found.id, found.content
    FROM unnest(CAST(:patterns AS text[])) WITH ORDINALITY AS piece (pattern, place) CROSS JOIN LATERAL (
        SELECT id, content, row_number() OVER (ORDER BY {NEWEST_FIRST}) AS turn FROM (
            SELECT id, sent_at, position, external_id, content FROM messages WHERE {{allowed}}
            ORDER BY sent_at DESC FETCH FIRST (:newest) ROWS WITH TIES) AS read
        WHERE content ILIKE piece.pattern ESCAPE '!'
        ORDER BY turn LIMIT :limit) found
    ORDER BY piece.place, turn
"""
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
_IN_ORDER = text(f"SELECT {COLUMNS} FROM messages WHERE id = ANY(:ids) ORDER BY {ORDER}")


def _filtered(
    connection: Connection, chat_id: str, which: MessageFilter, statement: str, **values: Any
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Run a statement with `{allowed}` in the place of the filter's conditions."""
    filtered = text(statement.format(allowed=which.conditions()))
    return run(connection, filtered, chat=chat_id, **which.parameters(), **values).all()


def allowed(connection: Connection, chat_id: str, which: MessageFilter, ids: Sequence[int]) -> set[int]:
    """Return the messages that pass a filter."""
    rows = _filtered(
        connection, chat_id, which, "SELECT id FROM messages WHERE {allowed} AND id = ANY(:ids)", ids=ids
    )
    return {row[0] for row in rows}


def keywords(
    connection: Connection,
    chat_id: str,
    which: MessageFilter,
    words: Sequence[str],
    *,
    mean_size: float,
    limit: int,
) -> list[int]:
    """Return the `limit` best messages by BM25 that pass a filter, best first."""
    if not words:
        return []
    values = {"any": any_of(words), "lexemes": words, "mean_size": max(mean_size, 1.0), "limit": limit}
    return [row[0] for row in _filtered(connection, chat_id, which, _KEYWORDS, **values)]


def nearest(
    connection: Connection,
    chat_id: str,
    which: MessageFilter,
    space: EmbeddingSpace,
    query: Vector,
    *,
    limit: int,
) -> list[tuple[int, float]]:
    """Return `(message, cosine)` of the `limit` nearest that a filter lets through, compared exactly, nearest first.

    A message counts by its best chunk.
    """
    condition = "chat_id = :chat AND message_id IN (SELECT id FROM messages WHERE {allowed})"
    statement = f"""
        WITH {best_chunks(space, condition)}
        SELECT message_id, {cosine(space.questions, "distance")} FROM best
    """
    rows = _filtered(connection, chat_id, which, statement, query=halved(query), limit=limit)
    return [(row[0], float(row[1])) for row in rows]


def within(space: EmbeddingSpace | None) -> str:
    """Return SQL of messages of the times from `:starts` to `:ends`: of each its first `:read` are looked at.

    These are `:side` with the words of the query or the first, the `:side` nearest to it, and the `:side` nearest of
    `:speakers`.
    """
    first = "FETCH FIRST (:side) ROWS WITH TIES"
    order = "m.tsv @@ CAST(:any AS tsquery) DESC, m.sent_at"
    if space is not None:
        order = f"""(SELECT min({distance(space, "v.embedding")}) FROM message_vectors v
            WHERE v.tenant_id = m.tenant_id AND v.message_id = m.id AND {in_space(space, "v.")}) NULLS LAST,
            m.sent_at"""
    # of each time the first ones, which say what it was about, the best of all, and the best of whom it names
    return f"""
        WITH inside AS MATERIALIZED (
            SELECT m.*, rank() OVER (PARTITION BY span.start ORDER BY m.sent_at) AS turn
            FROM unnest(CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[])) AS span (start, stop)
            CROSS JOIN LATERAL (
                SELECT tenant_id, id, tsv, sent_at, coalesce(nullif(sender_name, ''), sender_id) AS speaker
                FROM messages WHERE chat_id = :chat
                    AND (CAST(:key AS text) IS NULL OR session_key = :key)
                    AND sent_at >= span.start AND sent_at < span.stop
                ORDER BY sent_at FETCH FIRST (:read) ROWS WITH TIES) m)
        (SELECT id FROM inside m ORDER BY m.tsv @@ CAST(:any AS tsquery) DESC, turn {first})
        UNION (SELECT id FROM inside m ORDER BY {order} {first})
        UNION (SELECT id FROM inside m WHERE speaker = ANY(:speakers) ORDER BY {order} {first})
    """


def scan_from(connection: Connection, chat_id: str, messages: int, until: datetime | None) -> datetime | None:
    """Return from when on a chat's sessions hold at most `messages` messages, until a moment, or None if all do.

    The newest session counts whatever its size.
    """
    start, is_all = run(connection, _SCAN_FROM, chat=chat_id, messages=messages, until=until).one()
    return None if is_all is None or is_all else start


def exact(
    connection: Connection,
    chat_id: str,
    which: MessageFilter,
    piece: str,
    *,
    since: datetime | None,
    limit: int,
) -> list[Message]:
    """Return messages that contain this text, ignoring case, newest first."""
    values = {"pattern": pattern(piece), "scan_from": since, "limit": limit}
    statement = _EXACT if since is not None else _EXACT.replace(" AND sent_at >= :scan_from", "")
    return [as_message(row) for row in _filtered(connection, chat_id, which, statement, **values)]


def resembling(
    connection: Connection,
    chat_id: str,
    which: MessageFilter,
    pieces: Sequence[Sequence[str]],
    *,
    newest: int,
    limit: int,
) -> list[tuple[int, int, str]]:
    """Return `(number of the piece, message, text)` of messages that hold its parts in their order, newest first.

    For each piece only the `newest` of those that the filter lets through are read.
    """
    values = {"patterns": ["".join(map(pattern, p)) for p in pieces], "newest": newest, "limit": limit}
    return [(row[0], row[1], row[2]) for row in _filtered(connection, chat_id, which, _RESEMBLING, **values)]


_LIKE_SIGN = re.compile("[!%_]")


def pattern(piece: str) -> str:
    """Return a LIKE pattern, with the escape `!`, that matches these characters anywhere.

    >>> pattern("100%_sure!")
    '%100!%!_sure!!%'
    """
    return "%" + _LIKE_SIGN.sub(r"!\g<0>", piece) + "%"


def not_shown(
    connection: Connection,
    chat_id: str,
    session_key: str,
    start: datetime,
    end: datetime,
    shown: Sequence[int],
    limit: int,
) -> tuple[list[Message], int]:
    """Return `(messages, how many there are)` of a session beside those shown: the nearest to one of them, in order.

    With nothing shown, the session's beginning; at equal distance the earlier first. Messages without text are left
    out.
    """
    values = {"chat": chat_id, "key": session_key, "start": start, "end": end, "limit": limit}
    nearest_ids, there = run(connection, _NOT_SHOWN, **values, shown=shown).one()
    return [as_message(row) for row in run(connection, _IN_ORDER, ids=nearest_ids or [])], int(there)
