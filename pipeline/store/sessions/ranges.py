"""SQL that finds the sessions around messages, and creates, extends, splits and merges them, many at once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, run
from pipeline.store.sessions.session_rows import COLUMNS, as_session
from schemas.kinds import EMBED
from schemas.sessions import Session

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
_OF_IDS = text(
    f"SELECT {COLUMNS} FROM conversation_sessions WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"
)
_OF_KEY = text(f"""
    SELECT {COLUMNS} FROM conversation_sessions
    WHERE chat_id = :chat AND session_key = :key AND status <> 'merged'
    ORDER BY id FOR NO KEY UPDATE
""")
_SHAPES = "started_at timestamptz, ended_at timestamptz, message_count integer, token_count bigint, participants text[]"
_INSERT = text(f"""
    INSERT INTO conversation_sessions (tenant_id, chat_id, session_key, language, started_at, ended_at,
        message_count, token_count, participants)
    SELECT :tenant, chat_id, session_key, language, started_at, ended_at, message_count,
        token_count, participants
    FROM jsonb_to_recordset(:begun) AS begun (chat_id text, session_key text, language text, {_SHAPES})
    ORDER BY chat_id, session_key, started_at
    RETURNING id, chat_id
""")
_GROW = text(f"""
    UPDATE conversation_sessions s SET started_at = grown.started_at, ended_at = grown.ended_at,
        message_count = s.message_count + grown.message_count, token_count = s.token_count + grown.token_count,
        participants = grown.participants, status = 'open', failure_reason = NULL, revision = s.revision + 1
    FROM jsonb_to_recordset(:grown) AS grown (id bigint, {_SHAPES})
    WHERE s.id = grown.id
""")
_RESHAPE = text(f"""
    UPDATE conversation_sessions s SET started_at = cut.started_at, ended_at = cut.ended_at,
        message_count = cut.message_count, token_count = cut.token_count, participants = cut.participants,
        status = 'open', failure_reason = NULL, revision = s.revision + 1, inner_revision = s.inner_revision + 1,
        summary_ended_at = NULL
    FROM jsonb_to_recordset(:cut) AS cut (id bigint, {_SHAPES})
    WHERE s.id = cut.id
""")
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
# Their summaries are of another range: the next one reads everything.
_JOIN = text("""
    UPDATE conversation_sessions SET inner_revision = inner_revision + 1, summary_ended_at = NULL
    WHERE id = ANY(:survivors)
""")
# The same statement (`memories_content`) in sessions that become one; what the survivor has already is kept.
_DUPLICATES = text(f"""
    SELECT CAST(id AS text) AS id, CAST(kept AS text) AS kept FROM (
        SELECT m.id, first_value(m.id) OVER same AS kept
        FROM memories m LEFT JOIN {_JOINED} ON joined.loser = m.session_id
        WHERE m.session_id = ANY(:losers) OR m.session_id = ANY(:survivors)
        WINDOW same AS (
            PARTITION BY coalesce(joined.survivor, m.session_id), m.scope, coalesce(m.user_id, ''),
                coalesce(m.agent_id, ''), coalesce(m.document_id, ''), m.content_hash
            ORDER BY joined.loser IS NOT NULL, m.created_at, m.id)
    ) alike WHERE id <> kept
    ORDER BY id
""")
_MOVE_MEMORIES = text(
    f"UPDATE memories m SET session_id = joined.survivor FROM {_JOINED} WHERE m.session_id = joined.loser"
)


class Window(NamedTuple):
    """A stretch of time in which messages of one chat and session key have arrived."""

    chat_id: str
    session_key: str
    start: datetime
    end: datetime


def near(connection: Connection, windows: Sequence[Window]) -> list[Session]:
    """Lock and return the sessions that overlap any of these windows, earliest first."""
    rows = run(connection, _NEAR, **arrays("chats keys starts ends", windows))
    return sorted(map(as_session, rows), key=lambda s: s.started_at)


def of_ids(connection: Connection, ids: Sequence[int]) -> list[Session]:
    """Lock and return these sessions."""
    return [as_session(row) for row in run(connection, _OF_IDS, ids=ids)]


def of_key(connection: Connection, chat_id: str, session_key: str) -> list[Session]:
    """Lock and return all sessions of a chat and key, earliest first."""
    rows = run(connection, _OF_KEY, chat=chat_id, key=session_key)
    return sorted(map(as_session, rows), key=lambda s: s.started_at)


@dataclass(frozen=True, kw_only=True)
class SessionShape:
    """The range and the figures of a session, computed from its messages."""

    started_at: datetime
    ended_at: datetime
    message_count: int
    token_count: int
    # names, sorted
    participants: Sequence[str]


class Begun(NamedTuple):
    """A new session."""

    chat_id: str
    session_key: str
    language: str
    shape: SessionShape


def _as_json(shape: SessionShape, **more: Any) -> dict[str, Any]:
    times = {"started_at": shape.started_at.isoformat(), "ended_at": shape.ended_at.isoformat()}
    return {**asdict(shape), **times, "participants": list(shape.participants), **more}


def insert(connection: Connection, tenant_id: str, begun: Sequence[Begun]) -> list[tuple[int, str]]:
    """Create sessions; return `(id, chat)` of each."""
    rows = [
        _as_json(b.shape, chat_id=b.chat_id, session_key=b.session_key, language=b.language) for b in begun
    ]
    if not rows:
        return []
    return [(row.id, row.chat_id) for row in run(connection, _INSERT, tenant=tenant_id, begun=Jsonb(rows))]


def grow(connection: Connection, grown: Mapping[int, SessionShape]) -> None:
    """Extend sessions, by id, to these ranges with more messages and tokens; they are open and revised."""
    if grown:
        run(connection, _GROW, grown=Jsonb([_as_json(shape, id=i) for i, shape in grown.items()]))


def reshape(connection: Connection, cut: Mapping[int, SessionShape]) -> None:
    """Reset ranges and counts of sessions, by id; they are open and revised, their summaries outdated."""
    if cut:
        run(connection, _RESHAPE, cut=Jsonb([_as_json(shape, id=i) for i, shape in cut.items()]))


def merge(connection: Connection, into: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Merge sessions `{loser: survivor}`; return the `(messages, tokens)` brought to each survivor."""
    pairs = arrays("losers survivors", into.items())
    brought = run(connection, _BROUGHT, **pairs).all()
    for statement in (_MERGE, _LEAD_ON, _JOIN):
        run(connection, statement, **pairs)
    return {survivor: (int(count), int(tokens)) for survivor, count, tokens in brought}


# Whatever led to the duplicate leads to what is kept, so that forgetting that finds all that was made of it.
_UNITE = (
    """
    UPDATE memories m SET importance = greatest(m.importance, twin.importance),
        expires_at = CASE WHEN m.expires_at IS NOT NULL AND twin.expires_at IS NOT NULL
            THEN greatest(m.expires_at, twin.expires_at) END,
        lives_for = CASE WHEN m.expires_at IS NOT NULL AND twin.expires_at IS NOT NULL
            THEN greatest(m.lives_for, twin.lives_for) END
    FROM memories twin WHERE m.id = CAST(:kept AS uuid) AND twin.id = CAST(:id AS uuid)
    """,
    """
    UPDATE memories SET metadata = jsonb_set(metadata, '{recalled}',
        ((metadata->'recalled') - ('memory:' || :id)) || to_jsonb('memory:' || :kept))
    WHERE type = 'qa_turn' AND metadata->'recalled' ? ('memory:' || :id)
    """,
    """
    UPDATE query_log SET shown = (shown - ('memory:' || :id))
        || jsonb_build_object('memory:' || :kept, shown->('memory:' || :id))
    WHERE shown ? ('memory:' || :id)
    """,
    "DELETE FROM memories WHERE id = CAST(:id AS uuid)",
    f"DELETE FROM jobs WHERE kind = '{EMBED}' AND key = 'memory:' || :id",
)


def move_memories(connection: Connection, into: Mapping[int, int]) -> None:
    """Move the memories of sessions `{loser: survivor}` to their survivors.

    Of duplicates one is kept, with the highest importance, the latest expiry (none: never);
    the others are deleted with their vectors and their jobs.
    """
    pairs = arrays("losers survivors", into.items())
    for duplicate in run(connection, _DUPLICATES, **pairs).all():
        for statement in _UNITE:
            run(connection, text(statement), id=duplicate.id, kept=duplicate.kept)
    run(connection, _MOVE_MEMORIES, **pairs)
