"""SQL that reads candidates for ranking: the hits, the messages around them, and their features.

Look-ups over the scope's own indexes, one for each message, or one for all of them where nothing is joined: a join of
messages, sessions and vectors costs a hundred times as much as soon as the planner's statistics are behind.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Connection, TextClause, text

from pipeline.store.connections.statements import run
from pipeline.store.messages.message_rows import COLUMNS, NEWEST_FIRST, ORDER, answered, as_message, place_of
from pipeline.store.search.filters import Scope, affinity_of
from pipeline.store.search.keyword_search import any_of
from pipeline.store.vectors import cosine, distance, halved, in_space
from schemas.sessions import Message
from schemas.vectors import EmbeddingSpace, Vector

_MESSAGE = ", ".join(f"m.{name}" for name in COLUMNS.split(", "))
# Of a message; only where a lexeme of the query is in it are they counted.
_LENGTH = "coalesce(length(m.tsv), 0)"
_TERMS = """
    CASE WHEN m.tsv @@ CAST(:any AS tsquery) THEN
        (SELECT jsonb_object_agg(t.lexeme, cardinality(t.positions)) FROM unnest(m.tsv) t
            WHERE t.lexeme = ANY(:lexemes)) END
"""
# Replies to a hit, and the messages that it replies to, count as hits.
_REPLIES = 3
# The columns that order a message among its neighbours.
_PLACE = "id, sent_at, position, external_id, session_key"
# No window is numbered before its LIMIT, which bounds the sort of messages of one instant: it would read them all.
_NEAR = f"""
    given AS MATERIALIZED (
        SELECT {_PLACE}, reply_to FROM messages WHERE id = ANY(CAST(:ids AS bigint[])) AND chat_id = :chat
    ), wanted AS MATERIALIZED (
        SELECT {_PLACE} FROM given
        UNION SELECT r.* FROM given g CROSS JOIN LATERAL (
            SELECT {_PLACE} FROM messages r WHERE r.chat_id = :chat AND r.reply_to = g.external_id
            ORDER BY {ORDER} LIMIT {_REPLIES}) r WHERE :reach > 0
        UNION SELECT r.* FROM given g CROSS JOIN LATERAL (
            SELECT {_PLACE} FROM messages r WHERE r.chat_id = :chat AND r.external_id = g.reply_to) r
        WHERE g.reply_to IS NOT NULL AND :reach > 0
    ), found AS MATERIALIZED (
        SELECT m.*, s.id AS session_id, s.started_at, s.ended_at, s.affinity
        FROM wanted m LEFT JOIN LATERAL (
            SELECT s.id, s.started_at, s.ended_at, {affinity_of("s.participants")} AS affinity
            FROM conversation_sessions s
            WHERE s.chat_id = :chat AND s.session_key = m.session_key AND s.status <> 'merged'
                AND s.started_at <= m.sent_at
            ORDER BY s.started_at DESC LIMIT 1) s ON s.ended_at >= m.sent_at
    ), near AS (
        SELECT id AS found, id, coalesce(session_id, 0) AS session, affinity, sent_at, position, external_id FROM found
        UNION ALL
        SELECT f.id, n.id, f.session_id, f.affinity, n.sent_at, n.position, n.external_id
        FROM found f CROSS JOIN LATERAL (
            (SELECT id, sent_at, position, external_id FROM messages
                WHERE chat_id = :chat AND session_key = f.session_key AND sent_at BETWEEN f.started_at AND f.sent_at
                    AND ({ORDER}) < ({place_of("f")})
                ORDER BY {NEWEST_FIRST} LIMIT :reach)
            UNION ALL
            (SELECT id, sent_at, position, external_id FROM messages
                WHERE chat_id = :chat AND session_key = f.session_key AND sent_at BETWEEN f.sent_at AND f.ended_at
                    AND ({ORDER}) > ({place_of("f")})
                ORDER BY {ORDER} LIMIT :reach)) n
        WHERE f.session_id IS NOT NULL AND :reach > 0
    )
"""
_AROUND = text(f"WITH {_NEAR} SELECT id, max(session) FROM near GROUP BY id")


@lru_cache(maxsize=64)
def _candidates(spaces: tuple[EmbeddingSpace | None, ...]) -> TextClause:
    """Return the statement of messages with their cosines to as many queries, each in its space."""
    numbers = range(len(spaces))
    columns = ["session", "affinity", "next", "asks", "flags", *(f"cosine_{number}" for number in numbers)]

    def facts(source: str, **values: str) -> str:
        listed = ", ".join(f"{values.get(name, 'NULL')} AS {name}" for name in columns)
        return f"SELECT {values['id']} AS id, {listed} FROM {source}"

    # one look-up in each table for all messages, whatever the planner thinks of the tables, and a group for each
    these = "ARRAY(SELECT id FROM placed)"
    parts = [
        facts(
            "placed",
            id="id",
            session="session",
            affinity="affinity",
            next="next",
            asks="CAST(NULL AS real)",
            flags="CAST(NULL AS smallint)",
            **{f"cosine_{number}": "CAST(NULL AS float8)" for number in numbers},
        ),
        facts(f"message_cues WHERE message_id = ANY({these})", id="message_id", asks="asks", flags="flags"),
        *(
            facts(
                f"message_vectors WHERE {in_space(space)} AND message_id = ANY({these}) AND chat_id = :chat",
                id="message_id",
                **{f"cosine_{number}": cosine(space.questions, distance(space, query=f":query_{number}"))},
            )
            for number, space in enumerate(spaces)
            if space is not None
        ),
    ]
    cosines = ", ".join(f"f.cosine_{number}" for number in numbers)
    return text(f"""
        WITH {_NEAR}, placed AS MATERIALIZED (
            SELECT id, max(session) AS session, max(affinity) AS affinity, max(next) AS next FROM (
                SELECT id, session, affinity, lead(id) OVER (PARTITION BY found ORDER BY {ORDER}) AS next
                FROM near) window_of
            GROUP BY id
        ), facts AS MATERIALIZED (
            SELECT id, {", ".join(f"max({name}) AS {name}" for name in columns)}
            FROM ({" UNION ALL ".join(parts)}) part GROUP BY id
        )
        SELECT {_MESSAGE}, {answered("m")} AS answered, f.session, f.next, {_LENGTH} AS length, {_TERMS} AS terms,
            ARRAY[{cosines}] AS cosines, f.asks, f.flags, coalesce(f.affinity, 0) AS affinity
        FROM facts f
        CROSS JOIN LATERAL (SELECT * FROM messages WHERE id = f.id AND chat_id = :chat OFFSET 0) m
    """)


class CandidateRow(NamedTuple):
    """A message as `with_neighbours` reads it; a tuple, as hundreds are read for each question."""

    message: Message
    # its session (0: not placed yet), and the message that is known to come right after it there
    session: int
    next: int | None
    # distinct lexemes, and those of the queries, with how often it has each
    length: int
    terms: Mapping[str, int] | None
    # to the queries
    cosines: Sequence[float | None]
    # its cues, where they are stored
    asks: float | None
    flags: int | None
    # the asker's mean affinity to those who spoke in its session
    affinity: float


Compared = Sequence[tuple[EmbeddingSpace, Vector] | None]
"""The vector of each query, the question first, after its space; None: it is not compared by a vector."""


def with_neighbours(
    connection: Connection,
    scope: Scope,
    ids: Sequence[int],
    reach: int,
    words: Sequence[str],
    queries: Compared,
) -> list[CandidateRow]:
    """Return messages for ranking, with up to `reach` on either side within their sessions and what answers them."""
    compared = {f"query_{number}": halved(query[1]) for number, query in enumerate(queries) if query}
    values = {
        "ids": ids,
        "chat": scope.chat_id,
        "affinities": scope.affinities,
        "reach": reach,
        "lexemes": words,
        "any": any_of(words),
    }
    rows = run(connection, _candidates(tuple(query and query[0] for query in queries)), **values, **compared)
    of_message = len(Message._fields)
    return [CandidateRow(as_message(row[:of_message]), *row[of_message:]) for row in rows]


def around(connection: Connection, scope: Scope, ids: Sequence[int], reach: int) -> dict[int, int]:
    """Return messages with up to `reach` on either side within their sessions: the session (0: none yet) of each."""
    rows = run(connection, _AROUND, chat=scope.chat_id, affinities=scope.affinities, ids=ids, reach=reach)
    return {row[0]: row[1] for row in rows}
