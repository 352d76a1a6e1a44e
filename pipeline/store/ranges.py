"""SQL that finds the sessions around messages and writes them as ranges: begun, grown, cut and joined, many at once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store.sessions import COLUMNS, as_session
from schemas.sessions import Session


@dataclass(frozen=True, kw_only=True)
class Window:
    """A stretch of time in which messages of one chat and session key have arrived."""

    chat_id: str
    session_key: str
    start: datetime
    end: datetime


# Sessions of a chat and key do not overlap, so of those that begin before a window only the last one can reach into
# it: however many there are, the others are neither read nor locked. (An array of ids is made once; a semi-join is
# planned by guesses.)
_NEAR = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions WHERE id = ANY (ARRAY(
        SELECT found.id
        FROM unnest(CAST(:chats AS text[]), CAST(:keys AS text[]), CAST(:starts AS timestamptz[]),
            CAST(:ends AS timestamptz[])) AS around (chat_id, session_key, earliest, latest)
        CROSS JOIN LATERAL (
            (SELECT s.id, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = around.chat_id AND s.session_key = around.session_key AND s.status <> 'merged'
                AND s.started_at < around.earliest
            ORDER BY s.started_at DESC LIMIT 1)
            UNION ALL
            SELECT s.id, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = around.chat_id AND s.session_key = around.session_key AND s.status <> 'merged'
                AND s.started_at BETWEEN around.earliest AND around.latest
        ) found
        WHERE found.ended_at >= around.earliest))
    ORDER BY id FOR NO KEY UPDATE
""")


def near(connection: Connection, windows: Sequence[Window]) -> list[Session]:
    """The sessions that lie in any of these windows, partly at least, locked; earliest first."""
    rows = connection.execute(
        _NEAR,
        {
            "chats": [window.chat_id for window in windows],
            "keys": [window.session_key for window in windows],
            "starts": [window.start for window in windows],
            "ends": [window.end for window in windows],
        },
    )
    return sorted((as_session(row) for row in rows), key=lambda s: s.started_at)


_OF_IDS = text(
    f"SELECT {COLUMNS} FROM conversation_sessions WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"
)


def of_ids(connection: Connection, ids: Sequence[int]) -> list[Session]:
    """These sessions, locked."""
    rows = connection.execute(_OF_IDS, {"ids": list(ids)})
    return [as_session(row) for row in rows]


_OF_KEY = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions
    WHERE chat_id = :chat AND session_key = :key AND status <> 'merged'
    ORDER BY id FOR NO KEY UPDATE
""")


def of_key(connection: Connection, chat_id: str, session_key: str) -> list[Session]:
    """All sessions of a chat and key, locked, earliest first."""
    rows = connection.execute(_OF_KEY, {"chat": chat_id, "key": session_key})
    return sorted((as_session(row) for row in rows), key=lambda s: s.started_at)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a session's messages make of it."""

    started_at: datetime
    ended_at: datetime
    message_count: int
    token_count: int
    # names, sorted
    participants: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """A session that is new."""

    chat_id: str
    session_key: str
    language: str
    shape: Shape


_SHAPES = "started_at timestamptz, ended_at timestamptz, message_count integer, token_count bigint, participants text[]"


def _as_json(shape: Shape, **more: Any) -> dict[str, Any]:
    times = {"started_at": shape.started_at.isoformat(), "ended_at": shape.ended_at.isoformat()}
    return {**asdict(shape), **times, "participants": list(shape.participants), **more}


_INSERT = text(f"""
    INSERT INTO conversation_sessions (tenant_id, chat_id, session_key, language, started_at, ended_at,
        message_count, token_count, participants)
    SELECT :tenant, chat_id, session_key, language, started_at, ended_at, message_count,
        token_count, participants
    FROM jsonb_to_recordset(:begun) AS begun (chat_id text, session_key text, language text, {_SHAPES})
    ORDER BY chat_id, session_key, started_at
""").bindparams(bindparam("begun", type_=JSONB))


def insert(connection: Connection, tenant_id: str, begun: Sequence[NewSession]) -> None:
    """Begin sessions."""
    rows = [
        _as_json(new.shape, chat_id=new.chat_id, session_key=new.session_key, language=new.language)
        for new in begun
    ]
    if rows:
        connection.execute(_INSERT, {"tenant": tenant_id, "begun": rows})


_GROW = text(f"""
    UPDATE conversation_sessions s SET started_at = grown.started_at, ended_at = grown.ended_at,
        message_count = s.message_count + grown.message_count, token_count = s.token_count + grown.token_count,
        participants = grown.participants, status = 'open', failure_reason = NULL, revision = s.revision + 1
    FROM jsonb_to_recordset(:grown) AS grown (id bigint, {_SHAPES})
    WHERE s.id = grown.id
""").bindparams(bindparam("grown", type_=JSONB))


def grow(connection: Connection, grown: Mapping[int, Shape]) -> None:
    """Let sessions, by id, reach over these ranges, holding so many messages and tokens more.

    They are open again until they are closed, and a revision later.
    """
    if grown:
        rows = [_as_json(shape, id=session_id) for session_id, shape in grown.items()]
        connection.execute(_GROW, {"grown": rows})


_RESHAPE = text(f"""
    UPDATE conversation_sessions s SET started_at = cut.started_at, ended_at = cut.ended_at,
        message_count = cut.message_count, token_count = cut.token_count, participants = cut.participants,
        status = 'open', failure_reason = NULL, revision = s.revision + 1, inner_revision = s.inner_revision + 1,
        summary_ended_at = NULL
    FROM jsonb_to_recordset(:cut) AS cut (id bigint, {_SHAPES})
    WHERE s.id = cut.id
""").bindparams(bindparam("cut", type_=JSONB))


def reshape(connection: Connection, cut: Mapping[int, Shape]) -> None:
    """Set ranges and counts of sessions, by id, anew; what they were about is owed again."""
    if cut:
        rows = [_as_json(shape, id=session_id) for session_id, shape in cut.items()]
        connection.execute(_RESHAPE, {"cut": rows})


_JOINED = "unnest(CAST(:losers AS bigint[]), CAST(:survivors AS bigint[])) AS joined (loser, survivor)"
_BROUGHT = text(f"""
    SELECT joined.survivor, sum(s.message_count), sum(s.token_count)
    FROM {_JOINED} JOIN conversation_sessions s ON s.id = joined.loser GROUP BY joined.survivor
""")
_MERGE = text(f"""
    UPDATE conversation_sessions s SET status = 'merged', merged_into = joined.survivor, merged_at = now(),
        revision = s.revision + 1,
        message_count = 0, token_count = 0, participants = '{{}}', search_text = '', summary_text = NULL,
        topic_tags = '[]', decisions = '[]', open_questions = '[]', action_items = '[]', entities = '[]'
    FROM {_JOINED} WHERE s.id = joined.loser
""")
_LEAD_ON = text(f"""
    UPDATE conversation_sessions s SET merged_into = joined.survivor FROM {_JOINED} WHERE s.merged_into = joined.loser
""")
# What a summary says of them is of another range: the next one reads everything.
_JOIN = text("""
    UPDATE conversation_sessions SET inner_revision = inner_revision + 1, summary_ended_at = NULL
    WHERE id = ANY(:survivors)
""")


def merge(connection: Connection, into: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Join sessions `{loser: survivor}`; by survivor the `(messages, tokens)` that the losers brought.

    The losers stay as pointers to their survivors.
    """
    given = {"losers": list(into), "survivors": list(into.values())}
    brought = connection.execute(_BROUGHT, given).all()
    for statement in (_MERGE, _LEAD_ON, _JOIN):
        connection.execute(statement, given)
    return {survivor: (int(count), int(tokens)) for survivor, count, tokens in brought}
