"""SQL of figures over everything (counts, lags, progress, running processes), and of the inspector's pages.

Every statement of a page reads what that shows, by an index.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store import vectors
from pipeline.store.connections.statements import column, number, run
from pipeline.store.jobs.jobs import LANE, LATER, LIVE
from schemas.kinds import EMBED, INGEST, SUMMARIZE

_SERVER = text("""
    SELECT now(), current_setting('server_version'),
        (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
        pg_database_size(current_database())
""")
_COUNTS = text("""
    SELECT count(*) AS chats, coalesce(sum(message_count), 0)::bigint AS placed,
        (SELECT count(*) FROM arrivals WHERE quarantined_at IS NULL) AS waiting,
        (SELECT count(*) FROM arrivals WHERE quarantined_at IS NOT NULL) AS quarantined,
        (SELECT count(*) FROM memories) AS memories
    FROM chats WHERE moved_to IS NULL
""")
_SESSIONS_BY_STATUS = text("""
    SELECT status, count(*) FROM conversation_sessions
    WHERE status <> 'merged' AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)
    GROUP BY status ORDER BY status
""")
_VECTORS_BY_SPACE = text("""
    SELECT e.name AS space, e.status,
        (SELECT count(*) FROM message_vectors v WHERE v.space_id = e.id AND v.chunk_index = 0) AS messages,
        (SELECT count(*) FROM session_vectors v WHERE v.space_id = e.id AND v.chunk_index = 0) AS sessions,
        (SELECT count(*) FROM memory_vectors v WHERE v.space_id = e.id AND v.chunk_index = 0) AS memories
    FROM embedding_spaces e ORDER BY e.id
""")
# Numbers are given in the order of arrival: one message is looked up, however many wait.
_OLDEST_UNPLACED_SECONDS = text("""
    SELECT extract(epoch FROM now() - m.received_at)
    FROM (SELECT tenant_id, message_id FROM arrivals WHERE quarantined_at IS NULL
        ORDER BY message_id LIMIT 1) oldest
    JOIN messages m ON m.tenant_id = oldest.tenant_id AND m.id = oldest.message_id
""")
_UNPLACED = text("""
    SELECT count(*) FROM (SELECT FROM arrivals WHERE quarantined_at IS NULL LIMIT :at_most) AS row
""")
# Of a partitioned table the sum; rows as they were counted at its last ANALYZE or VACUUM.
_TABLES = text("""
    SELECT coalesce(parent.relname, own.relname) AS name, sum(greatest(own.reltuples, 0))::float8 AS rows,
        sum(pg_total_relation_size(own.oid))::float8 AS bytes
    FROM pg_class own LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class parent ON parent.oid = inhparent
    WHERE own.relkind = 'r' AND own.relnamespace = current_schema()::regnamespace
    GROUP BY 1 ORDER BY 1
""")
_SPEAKERS = text("""
    SELECT max(coalesce(nullif(sender_name, ''), sender_id)) AS speaker, sender_id, count(*) AS messages
    FROM messages WHERE chat_id = :chat GROUP BY sender_id ORDER BY count(*) DESC, sender_id LIMIT :limit
""")
_TIMES_OF_OTHERS = text("""
    SELECT min(sent_at), max(sent_at) FROM messages
    WHERE chat_id = :chat AND starts_with(external_id, :prefix) = :with_prefix
""")
_TIMES = text("""
    SELECT named.chat_id, c.time_zone, c.language, c.language_by,
        (SELECT min(sent_at) FROM messages m
            WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id) AS first_at,
        (SELECT max(sent_at) FROM messages m
            WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id) AS last_at
    FROM chats named JOIN chats c ON c.chat_id = coalesce(named.moved_to, named.chat_id)
    WHERE named.chat_id = ANY(:chats)
""")
# One statement, so that jobs which move from one kind to the next meanwhile are seen exactly once. From the job
# to its object, by that one's key: the other way round the planner has been seen to compare all with all. Only jobs in
# the lanes of the chats, and in that of those whose chat was not known, are looked at: others may be millions.
_PROGRESS = f"""
    WITH named AS (SELECT chat_id, message_count FROM chats WHERE chat_id = ANY(:chats)),
    mine AS MATERIALIZED (
        SELECT latest.* FROM named CROSS JOIN LATERAL (
            SELECT m.tenant_id, m.id, m.content <> '' AS has_text FROM messages m WHERE m.chat_id = named.chat_id
            ORDER BY m.sent_at DESC LIMIT CAST(:latest AS bigint)) AS latest
    ),
    cut AS (SELECT status FROM conversation_sessions WHERE chat_id = ANY(:chats) AND status <> 'merged'),
    lanes AS (
        SELECT 0 AS lane UNION ALL
        SELECT {LANE.format(lane="chat_id")} FROM chats WHERE chat_id = ANY(:chats) OR moved_to = ANY(:chats)
    ),
    open_jobs AS (
        SELECT * FROM jobs WHERE kind = ANY(:kinds) AND priority = ANY(:priorities)
            AND lane = ANY(ARRAY(SELECT lane FROM lanes)) AND due_at IS NOT NULL AND claimed IS NULL
        UNION ALL
        SELECT * FROM jobs WHERE kind = ANY(:kinds) AND due_at IS NOT NULL AND claimed IS NOT NULL
        UNION ALL
        SELECT * FROM jobs WHERE kind = ANY(:kinds) AND lane = ANY(ARRAY(SELECT lane FROM lanes))
            AND due_at IS NULL AND dead_at IS NOT NULL
    ),
    pending AS (
        SELECT w.due_at, w.dead_at, w.last_error FROM open_jobs w WHERE CASE
            WHEN w.kind = '{INGEST}' THEN w.key = ANY(:chats)
            WHEN starts_with(w.key, 'session:') THEN EXISTS (
                SELECT 1 FROM conversation_sessions s WHERE s.tenant_id = w.tenant_id
                    AND s.id = CAST(substr(w.key, 9) AS bigint) AND s.chat_id = ANY(:chats))
            WHEN starts_with(w.key, 'message:') THEN EXISTS (
                SELECT 1 FROM messages m WHERE m.tenant_id = w.tenant_id
                    AND m.id = CAST(substr(w.key, 9) AS bigint) AND m.chat_id = ANY(:chats))
            ELSE false END
    ),
    unplaced AS (SELECT count(*) AS waiting FROM arrivals WHERE chat_id = ANY(:chats) AND quarantined_at IS NULL)
    SELECT (SELECT coalesce(sum(message_count), 0)::bigint FROM named) + unplaced.waiting AS messages,
        unplaced.waiting,
        (SELECT count(*) FROM mine WHERE has_text) AS to_embed,
        {{embedded}} AS embedded,
        (SELECT count(*) FROM cut WHERE status <> 'open') AS closed,
        (SELECT count(*) FROM cut WHERE status NOT IN ('open', 'closed')) AS summarized,
        (SELECT count(*) FROM pending WHERE due_at IS NOT NULL) AS pending,
        (SELECT count(*) FROM pending WHERE dead_at IS NOT NULL) AS dead,
        (SELECT last_error FROM pending WHERE dead_at IS NOT NULL ORDER BY dead_at DESC LIMIT 1) AS error
    FROM unplaced
"""
_EMBEDDED = """
    (SELECT count(*) FROM mine JOIN message_vectors v ON v.tenant_id = mine.tenant_id AND v.message_id = mine.id
        WHERE v.space_id = (SELECT id FROM embedding_spaces WHERE status = 'active') AND v.chunk_index = 0)
"""


def fix_snapshot(connection: Connection) -> None:
    """Let every statement of this transaction, none of which has run yet, see the database of one moment."""
    run(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def server(connection: Connection) -> tuple[datetime, str, str | None, int]:
    """Return `(time, version of Postgres, version of pgvector or None, bytes of this database)`."""
    row = run(connection, _SERVER).one()
    return row[0], str(row[1]).partition(" ")[0], row[2], int(row[3])


def counts(connection: Connection) -> Row[Any]:
    """Return one tenant's `chats`, `placed`, `waiting` and `quarantined` messages, and `memories`."""
    return run(connection, _COUNTS).one()


def sessions_by_status(connection: Connection, chat_id: str | None = None) -> dict[str, int]:
    """Count the sessions of a chat, or of all, by status, without merged ones."""
    return {str(status): int(count) for status, count in run(connection, _SESSIONS_BY_STATUS, chat=chat_id)}


def vectors_by_space(connection: Connection) -> Sequence[Row[Any]]:
    """Return one tenant's vectors: `(space, status, messages, sessions, memories)`; nothing without pgvector."""
    return run(connection, _VECTORS_BY_SPACE).all() if vectors.exist(connection) else []


def oldest_unplaced_seconds(connection: Connection) -> float | None:
    """Return how long the longest waiting message that the role may see has been accepted; None if none waits."""
    seconds = connection.scalar(_OLDEST_UNPLACED_SECONDS)
    return None if seconds is None else float(seconds)


def unplaced(connection: Connection, at_most: int) -> int:
    """Count messages that are accepted and not yet placed, up to `at_most`."""
    return number(connection, _UNPLACED, at_most=at_most)


def tables(connection: Connection) -> Sequence[Row[Any]]:
    """Return `(name, rows, bytes)` of each table, its indexes included; rows are estimated."""
    return run(connection, _TABLES).all()


def speakers(connection: Connection, chat_id: str, limit: int) -> Sequence[Row[Any]]:
    """Return `(speaker, sender_id, messages)` of those who said most in a chat."""
    return run(connection, _SPEAKERS, chat=chat_id, limit=limit).all()


def times_of_others(
    connection: Connection, chat_id: str, prefix: str, *, with_prefix: bool
) -> tuple[datetime, datetime] | None:
    """Return `(first, last)` time of the chat's messages with, or without, this prefix of their id, or None."""
    row = run(connection, _TIMES_OF_OTHERS, chat=chat_id, prefix=prefix, with_prefix=with_prefix).one()
    return None if row[0] is None else (row[0], row[1])


def times(connection: Connection, chat_ids: Sequence[str]) -> Sequence[Row[Any]]:
    """Return `(chat_id, time_zone, language, language_by, first_at, last_at)` of these chats, where they are now."""
    return run(connection, _TIMES, chats=chat_ids).all()


def progress(
    connection: Connection, chat_ids: Sequence[str], latest: int | None, *, summarizes: bool
) -> Row[Any]:
    """Return the progress of these chats' messages into memory; see `pipeline.operations.status.Progress`.

    Vectors are looked for of the `latest` messages of each chat, or of all.
    """
    # what stays pending until pgvector appears or a setting is on does not count
    able = vectors.exist(connection)
    kinds = [INGEST.name, *([SUMMARIZE.name] if summarizes else []), *([EMBED.name] if able else [])]
    statement = text(_PROGRESS.format(embedded=_EMBEDDED if able else "0"))
    values = {"chats": list(chat_ids), "kinds": kinds, "priorities": [LIVE, LATER], "latest": latest}
    return run(connection, statement, **values).one()


GONE_SECONDS = 45
"""A process that was not seen for so long is gone: it has missed four of its own writes."""
_STATE = """
    INSERT INTO processes (kind, host, pid, settings, connections)
    VALUES (:kind, :host, :pid, :settings, :connections)
    ON CONFLICT (kind, host, pid) DO UPDATE SET settings = excluded.settings, seen_at = now(),
        connections = excluded.connections,
        began_at = CASE WHEN processes.settings = excluded.settings THEN processes.began_at ELSE now() END
"""
_END = """
    DELETE FROM processes WHERE (kind, host, pid, settings) = (:kind, :host, :pid, :settings)
        OR seen_at < now() - interval '1 day'
"""
_RUNNING = """
    SELECT kind, host, pid, settings, connections FROM processes WHERE seen_at > now() - make_interval(secs => :gone)
    ORDER BY began_at DESC, kind, host, pid
"""


class RunningProcess(NamedTuple):
    """A process, such as `api` or `worker embed`, and its `Settings.stated`."""

    kind: str
    host: str
    pid: int
    settings: Mapping[str, Any]
    # to Postgres that it may open
    connections: int = 0

    def __str__(self) -> str:
        return f"{self.kind} ({self.host}, {self.pid})"


def state_process(connection: Connection, process: RunningProcess, *, ends: bool = False) -> None:
    """Record that a process runs, or `ends`; then also forget those that went long ago without saying so."""
    run(connection, _END if ends else _STATE, **process._asdict())


def running_processes(connection: Connection) -> list[RunningProcess]:
    """Return the processes that were seen lately, those that began last first."""
    return [RunningProcess(**row._mapping) for row in run(connection, _RUNNING, gone=GONE_SECONDS)]


_SPACES = text("""
    SELECT message_id, array_agg(DISTINCT space_id) AS spaces FROM message_vectors
    WHERE message_id = ANY(:ids) GROUP BY message_id
""")
_SPACES_OF_SESSION = text("SELECT DISTINCT space_id FROM session_vectors WHERE session_id = :id")
_SESSION_OF = text("""
    SELECT s.id FROM messages m JOIN conversation_sessions s ON s.tenant_id = m.tenant_id
        AND s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
        AND m.sent_at BETWEEN s.started_at AND s.ended_at
    WHERE m.id = :id LIMIT 1
""")
# by their keys, of which a kind has one each
_JOBS = text("""
    SELECT kind, key, attempts, due_at, dead_at, last_error AS error FROM jobs
    WHERE kind = ANY(:kinds) AND key = ANY(:keys) AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    ORDER BY dead_at IS NULL, kind, key
""")
_OF_SESSION = text("""
    SELECT DISTINCT m.id, m.scope, m.user_id, m.content, m.subject, m.retracted_at, EXISTS (
        SELECT 1 FROM memory_supersessions e WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id) AS is_superseded
    FROM memories m WHERE m.session_id = :id OR m.id = ANY(ARRAY(
        SELECT memory_id FROM memory_evidence WHERE session_id = :id))
    ORDER BY m.id LIMIT :limit
""")
_OWNER = text(
    "SELECT scope, user_id, coalesce(session_id, source_session_id) AS session FROM memories WHERE id = :id"
)
# one look at the index for each person, however many memories they have
_PEOPLE = text("""
    WITH RECURSIVE person AS (
        (SELECT user_id FROM memories WHERE scope = 'user' AND user_id > :after ORDER BY user_id LIMIT 1)
        UNION ALL
        SELECT (SELECT m.user_id FROM memories m WHERE m.scope = 'user' AND m.user_id > person.user_id
            ORDER BY m.user_id LIMIT 1) FROM person WHERE person.user_id IS NOT NULL
    ), listed AS (SELECT user_id FROM person WHERE user_id IS NOT NULL LIMIT :limit)
    SELECT user_id, (SELECT count(*) FROM memories m
            WHERE m.scope = 'user' AND m.user_id = listed.user_id AND m.type <> 'document') AS memories,
        (SELECT sender_name FROM messages t WHERE t.sender_id = listed.user_id AND sender_name <> '' LIMIT 1) AS name
    FROM listed
""")


def spaces_of(connection: Connection, message_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the spaces in which each of these messages has a vector."""
    if not vectors.exist(connection):
        return {}
    return {row.message_id: list(row.spaces) for row in run(connection, _SPACES, ids=list(message_ids))}


def spaces_of_session(connection: Connection, session_id: int) -> list[int]:
    """Return the spaces in which a session's summary has a vector."""
    return column(connection, _SPACES_OF_SESSION, id=session_id) if vectors.exist(connection) else []


def session_of(connection: Connection, message_id: int) -> int | None:
    """Return the session that holds a message; None if it is not placed yet, or gone."""
    return next(iter(column(connection, _SESSION_OF, id=message_id)), None)


def jobs_of(connection: Connection, kinds: Sequence[str], keys: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the pending and dead jobs with these keys, dead ones first."""
    return run(connection, _JOBS, kinds=list(kinds), keys=list(keys)).all()


def memories_of_session(connection: Connection, session_id: int, limit: int) -> Sequence[Row[Any]]:
    """Return the memories learned from a session, and those that belong to it."""
    return run(connection, _OF_SESSION, id=session_id, limit=limit).all()


def owner_of_memory(connection: Connection, memory_id: str) -> Row[Any] | None:
    """Return `(scope, user_id, session)` of a memory."""
    return run(connection, _OWNER, id=memory_id).one_or_none()


def people(connection: Connection, after: str, limit: int) -> Sequence[Row[Any]]:
    """Return the people with memories, by id: `(user_id, memories, name)`."""
    return run(connection, _PEOPLE, after=after, limit=limit).all()
