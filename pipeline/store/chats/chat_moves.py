"""SQL that moves a chat's messages, with all derived data, to another chat."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store import numbers, vectors
from pipeline.store.chats import chat_languages
from pipeline.store.chats.chats import CHAT_COLUMNS, Chat
from pipeline.store.connections.statements import arrays, column, holds, run
from pipeline.store.jobs import jobs
from pipeline.store.numbers import THEIRS, told
from pipeline.store.sessions import rollups
from schemas.kinds import FORGET, INGEST, LANGUAGE
from schemas.sessions import Session

_ADDRESS = text("""
    SELECT moved_to FROM chats c WHERE chat_id = :chat AND moved_to IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM messages m
        WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id AND m.external_id = :external)
""")
_MOVED_ON = text("""
    WITH RECURSIVE later AS (
        SELECT new_id FROM changed_numbers WHERE id = :number
        UNION SELECT c.new_id FROM changed_numbers c JOIN later ON c.id = later.new_id
    )
    SELECT m.chat_id FROM later JOIN messages m ON m.chat_id = later.new_id || :account AND m.external_id = :external
    WHERE NOT EXISTS (SELECT 1 FROM messages WHERE chat_id = :chat AND external_id = :external)
        -- a key for the next owner's chat reaches nothing of the former one's
        AND nullif(current_setting('app.chats', true), '') IS NULL LIMIT 1
""")
_STILL_THERE = text(
    "SELECT external_id FROM messages WHERE chat_id = :chat AND external_id = ANY(:externals)"
)
_FORMER = text("SELECT chat_id FROM chats WHERE moved_to = :chat ORDER BY chat_id")
_UNDER_WAY = text(f"""
    SELECT EXISTS (SELECT 1 FROM forget_receipts r WHERE kind = 'move' AND finished_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = r.tenant_id AND w.kind = '{FORGET}'
            AND w.key = CAST(r.id AS text) AND w.dead_at IS NOT NULL))
""")
_LOCK = text(f"SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id FOR UPDATE")
# of a chat whose number moved on, only what its former owner's chat holds
_SAID = f"(CAST(:until AS timestamptz) IS NULL OR {told('m')} <= :until)"
_ARRIVALS = text(f"""
    SELECT message_id FROM arrivals a WHERE chat_id = :chat AND (CAST(:until AS timestamptz) IS NULL OR EXISTS (
        SELECT 1 FROM messages m WHERE m.chat_id = :chat AND m.id = a.message_id AND {told("m")} <= :until))
    ORDER BY message_id LIMIT :limit
""")
_SESSIONS = text(f"""
    SELECT id FROM (
        SELECT id, sum(message_count) OVER (ORDER BY session_key, started_at) AS held,
            row_number() OVER (ORDER BY session_key, started_at) AS place
        FROM (SELECT id, session_key, started_at, message_count FROM conversation_sessions s
            WHERE chat_id = :chat AND status <> 'merged' AND (CAST(:until AS timestamptz) IS NULL
                OR started_at <= :until AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = :chat
                    AND m.session_key = s.session_key AND m.sent_at BETWEEN s.started_at AND s.ended_at
                    AND {told("m")} > :until))
            ORDER BY session_key, started_at LIMIT :limit) earliest) counted
    WHERE held <= :messages OR place = 1
""")
_INSIDE = text("""
    SELECT m.id FROM unnest(CAST(:keys AS text[]), CAST(:starts AS timestamptz[]),
        CAST(:ends AS timestamptz[])) AS session (key, start, until)
    JOIN messages m ON m.chat_id = :chat AND m.session_key = session.key
        AND m.sent_at BETWEEN session.start AND session.until
""")
_LEFT = text(f"SELECT id FROM messages m WHERE chat_id = :chat AND {_SAID} ORDER BY id LIMIT :limit")
_COPIES = text("""
    SELECT counted.messages, counted.copies, m.sender_name, m.content, m.sent_at FROM (
        SELECT count(*) AS messages, count(there.id) AS copies,
            min(here.id) FILTER (WHERE there.id IS NOT NULL) AS first
        FROM messages here LEFT JOIN LATERAL (
            -- one by one, by the whole key: of chats just imported the planner knows no numbers
            SELECT * FROM messages m WHERE m.chat_id = :into AND m.external_id = here.external_id OFFSET 0
        ) there ON there.content = here.content AND (starts_with(here.external_id, :derived)
            OR there.sender_id = here.sender_id AND there.sent_at = here.sent_at)
        WHERE here.chat_id = :chat) counted
    LEFT JOIN messages m ON m.id = counted.first
""")
_MOVE_VECTORS = """, embedded AS (
    UPDATE message_vectors v SET chat_id = :into FROM moved
    WHERE v.tenant_id = moved.tenant_id AND v.message_id = moved.id)"""
_MOVE_SESSIONS = text("UPDATE conversation_sessions SET chat_id = :into WHERE id = ANY(:ids)")
_MOVE_SESSION_VECTORS = text("UPDATE session_vectors SET chat_id = :into WHERE session_id = ANY(:ids)")
_CLEAR = (
    text("DELETE FROM chat_members WHERE chat_id = :chat AND tenant_id = :tenant"),
    text("DELETE FROM session_closes WHERE chat_id = :chat AND tenant_id = :tenant"),
    text("DELETE FROM llm_answers WHERE chat_id = :chat AND tenant_id = :tenant"),
)


def moved_id(external_id: str) -> str:
    """Return SQL of a message's id in the chat `:into`, from its id in `:chat`."""
    # another chat may have the same ids, so that the former chat comes first: `telegram:-100/5`
    return f"""CASE
        WHEN starts_with({external_id}, :into || '/') THEN substr({external_id}, length(:into) + 2)
        WHEN EXISTS (SELECT 1 FROM chats former WHERE former.moved_to = :into
            AND starts_with({external_id}, former.chat_id || '/')) THEN {external_id}
        ELSE :chat || '/' || {external_id} END"""


def address(connection: Connection, chat_id: str, external_id: str) -> tuple[str, str]:
    """Return the current chat and id of a message, given those that it had before a move."""
    into = connection.scalar(_ADDRESS, {"chat": chat_id, "external": external_id})
    if into is not None:
        return into, names(connection, chat_id, into, [external_id])[0]
    number, account = numbers.of_chat(chat_id)
    values = {"chat": chat_id, "number": number, "account": account, "external": external_id}
    return connection.scalar(_MOVED_ON, values) or chat_id, external_id


def chat_of(connection: Connection, message_id: int) -> str | None:
    """Return the chat that a message is in now, or None if it is gone."""
    return next(iter(column(connection, "SELECT chat_id FROM messages WHERE id = :id", id=message_id)), None)


_NAMES = text(f"""
    SELECT {moved_id("external_id")} FROM unnest(CAST(:externals AS text[])) WITH ORDINALITY
        AS given (external_id, place) ORDER BY place
""")


def names(connection: Connection, chat_id: str, into: str, external_ids: Sequence[str]) -> list[str]:
    """Return the ids that messages of a chat have in the chat that it was moved to."""
    return column(connection, _NAMES, chat=chat_id, into=into, externals=external_ids)


def still_there(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> set[str]:
    """Return the messages that have not been moved yet."""
    return set(column(connection, _STILL_THERE, chat=chat_id, externals=external_ids))


def former(connection: Connection, chat_id: str) -> list[str]:
    """Return the ids that a chat had before."""
    return column(connection, _FORMER, chat=chat_id)


def is_moving(connection: Connection) -> bool:
    """Tell whether a chat is being moved; a move that was given up does not count."""
    return holds(connection, _UNDER_WAY)


_UNFINISHED = text("""
    SELECT EXISTS (SELECT 1 FROM forget_receipts WHERE finished_at IS NULL AND (CAST(:ids AS text[]) IS NULL
        OR NOT subject ? 'chats' OR subject->>'chat_id' = ANY(:ids) OR subject->>'into' = ANY(:ids)))
""")


def unfinished(connection: Connection, ids: Sequence[str] | None = None) -> bool:
    """Tell whether something is being forgotten, removed or moved; with `ids`, not counting other people's numbers."""
    return holds(connection, _UNFINISHED, ids=ids)


_REDIRECT = (
    *numbers.FOLLOWING,
    "UPDATE chats SET moved_to = NULL WHERE chat_id = :into",
    "UPDATE chats SET moved_to = :into WHERE chat_id = :chat OR moved_to = :chat AND chat_id <> :into",
    """
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT tenant_id, :into, sender_id FROM chat_members WHERE chat_id = :chat ON CONFLICT DO NOTHING
    """,
    # not `seen` yet: whether they split a session there is still to be checked
    """
    INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
    SELECT tenant_id, :into, session_key, closed_at FROM session_closes WHERE chat_id = :chat ON CONFLICT DO NOTHING
    """,
    f"UPDATE pending_changes SET chat_id = :into, external_id = {moved_id('external_id')} WHERE chat_id = :chat",
    """
    INSERT INTO member_changes (tenant_id, chat_id, sender_id, at, joined)
    SELECT tenant_id, :into, sender_id, at, joined FROM member_changes WHERE chat_id = :chat ON CONFLICT DO NOTHING
    """,
    "DELETE FROM member_changes WHERE chat_id = :chat",
    # bots and platforms use the new id from now on
    *(
        f"UPDATE {table} SET chats = chats || CAST(:into AS text) WHERE :chat = ANY(chats) AND NOT :into = ANY(chats)"
        for table in ("api_keys", "sources")
    ),
)


def redirect(connection: Connection, chat_id: str, into: str) -> None:
    """Redirect a chat, and chats redirected to it, to another one, and move its small tables."""
    for statement in _REDIRECT:
        run(connection, text(statement), chat=chat_id, into=into)


def lock(connection: Connection, chat_ids: Sequence[str]) -> dict[str, Chat]:
    """Lock chats against placing and accepting alike; return them by id."""
    return {row.chat_id: Chat(**row._mapping) for row in run(connection, _LOCK, chats=chat_ids)}


def arrivals(connection: Connection, chat_id: str, limit: int, until: datetime | None = None) -> list[int]:
    """Return messages of a chat up to a time that wait for their place, those in quarantine among them."""
    return column(connection, _ARRIVALS, chat=chat_id, limit=limit, until=until)


def sessions(
    connection: Connection, chat_id: str, messages: int, limit: int, until: datetime | None = None
) -> list[int]:
    """Return a chat's earliest sessions by key, up to both limits, but at least one; none with later messages."""
    return column(connection, _SESSIONS, chat=chat_id, messages=messages, limit=limit, until=until)


def messages_of_sessions(connection: Connection, chat_id: str, sessions: Sequence[Session]) -> list[int]:
    """Return the messages of these sessions of a chat."""
    ranges = ((s.session_key, s.started_at, s.ended_at) for s in sessions)
    return column(connection, _INSIDE, chat=chat_id, **arrays("keys starts ends", ranges))


def messages_left(
    connection: Connection, chat_id: str, limit: int, until: datetime | None = None
) -> list[int]:
    """Return messages of a chat up to a time, once the whole sessions are moved."""
    return column(connection, _LEFT, chat=chat_id, limit=limit, until=until)


def copies(connection: Connection, chat_id: str, into: str, derived: str) -> Row[Any]:
    """Return `(messages, copies, sender_name, content, sent_at)`: counts, and the first message that both chats have.

    Copies have the same id, sender, text and time; an id that starts with `derived` names the sender, and the time as
    it was read off a clock.
    """
    return run(connection, _COPIES, chat=chat_id, into=into, derived=derived).one()


class Moved(NamedTuple):
    """Messages that were moved."""

    messages: int
    # the placed ones, and the sum of their distinct lexemes
    placed: int
    lexemes: int


# ids of a platform whose numbers move on are unique in all its chats; somebody may have forged one
_KEPT_ID = f"""CASE WHEN EXISTS (SELECT 1 FROM messages o WHERE o.chat_id = :into AND o.external_id = m.external_id)
    THEN {moved_id("m.external_id")} ELSE m.external_id END"""


def _move_messages(also: str, *, keeps_ids: bool) -> TextClause:
    named, answered = (
        (_KEPT_ID, "m.reply_to") if keeps_ids else (moved_id("m.external_id"), moved_id("m.reply_to"))
    )
    return text(f"""
        WITH moved AS (
            UPDATE messages m SET chat_id = :into, external_id = {named}, reply_to = {answered}
            WHERE m.chat_id = :chat AND m.id = ANY(:ids)
            RETURNING m.tenant_id, m.id, length(m.tsv) AS lexemes
        ), waiting AS (
            UPDATE arrivals a SET chat_id = :into FROM moved
            WHERE a.tenant_id = moved.tenant_id AND a.message_id = moved.id RETURNING a.message_id
        ), cues AS (
            UPDATE message_cues c SET chat_id = :into FROM moved
            WHERE c.tenant_id = moved.tenant_id AND c.message_id = moved.id
        ){also}
        SELECT count(*), count(*) FILTER (WHERE placed), coalesce(sum(lexemes) FILTER (WHERE placed), 0)
        FROM (SELECT lexemes, id NOT IN (SELECT message_id FROM waiting) AS placed FROM moved) counted
    """)


def messages(
    connection: Connection, chat_id: str, into: str, ids: Sequence[int], *, keeps_ids: bool = False
) -> Moved:
    """Move messages with their cues, vectors and arrivals, in one statement: references to partitions name the chat."""
    statement = _move_messages(_MOVE_VECTORS if vectors.exist(connection) else "", keeps_ids=keeps_ids)
    return Moved(*map(int, run(connection, statement, chat=chat_id, into=into, ids=ids).one()))


def move_sessions(connection: Connection, into: str, session_ids: Sequence[int]) -> None:
    """Move sessions with their vectors."""
    run(connection, _MOVE_SESSIONS, into=into, ids=session_ids)
    if vectors.exist(connection):
        run(connection, _MOVE_SESSION_VECTORS, into=into, ids=session_ids)


_ALL = "CAST(:came AS timestamptz) IS NULL"
_REST = (
    # pointers to merged sessions
    f"""
    UPDATE conversation_sessions SET chat_id = :into WHERE id = ANY(ARRAY(
        SELECT id FROM conversation_sessions WHERE chat_id = :chat
            AND ({_ALL} OR status = 'merged' AND started_at <= :until) ORDER BY id LIMIT :limit))
    """,
    f"""
    UPDATE query_log SET chat_id = :into WHERE context_id = ANY(ARRAY(
        SELECT context_id FROM query_log WHERE chat_id = :chat AND ({_ALL} OR asked_at < :came)
        ORDER BY context_id LIMIT :limit))
    """,
    f"""
    UPDATE memory_evidence SET chat_id = :into WHERE (memory_id, message_id) IN (
        SELECT memory_id, message_id FROM memory_evidence WHERE chat_id = :chat AND ({_ALL} OR said_at <= :until)
        ORDER BY memory_id, message_id LIMIT :limit)
    """,
    f"""
    UPDATE memories SET learned_in = :into WHERE id = ANY(ARRAY(
        SELECT id FROM memories m WHERE learned_in = :chat AND ({_ALL} OR {THEIRS}) ORDER BY id LIMIT :limit))
    """,
    f"""
    UPDATE memories SET also_in = array_replace(also_in, :chat, :into) WHERE id = ANY(ARRAY(
        SELECT id FROM memories m WHERE :chat = ANY(also_in) AND ({_ALL} OR {THEIRS}) ORDER BY id LIMIT :limit))
    """,
    f"""
    UPDATE llm_calls SET chat_id = :into WHERE id = ANY(ARRAY(
        SELECT id FROM llm_calls WHERE chat_id = :chat AND ({_ALL} OR called_at < :came) ORDER BY id LIMIT :limit))
    """,
)


def move_rest(
    connection: Connection,
    chat_id: str,
    into: str,
    limit: int,
    until: datetime | None = None,
    came: datetime | None = None,
) -> bool:
    """Move up to `limit` rows of each other table that names a chat; tell whether there were any.

    With `until`, only what was said up to then, or made before somebody else `came`.
    """
    values = {"chat": chat_id, "into": into, "limit": limit, "until": until, "came": came}
    return any(run(connection, text(sql), **values).rowcount for sql in _REST)


def clear(connection: Connection, tenant_id: str, chat_id: str, into: str, *, whole: bool = True) -> None:
    """Delete what a moved chat leaves behind, and its jobs; have its weeks rolled up in the new chat.

    Unless it is moved as a `whole`, its members and where its sessions close are somebody else's.
    """
    for statement in _CLEAR if whole else _CLEAR[-1:]:
        run(connection, statement, tenant=tenant_id, chat=chat_id)
    jobs.drop(connection, tenant_id, [INGEST, LANGUAGE], [chat_id])
    # moved messages are indexed in the language of the former chat
    chat_languages.index_all(connection, into)
    chat_languages.enqueue(connection, tenant_id, into)
    rollups.drop_of_chat(connection, tenant_id, chat_id, into)
