"""SQL of chat languages: their origin, and reindexing of their words slice by slice."""

from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import column, run
from pipeline.store.jobs import jobs
from pipeline.store.messages.message_rows import waits
from schemas.kinds import LANGUAGE
from schemas.languages import AUTO
from schemas.sessions import EXTRACTIVE

DECLARED, DETECTED = "declared", "detected"
"""Where a chat's language comes from."""

# Everything stored is to be reindexed, from the first message on.
_SET = text("""
    UPDATE chats SET language = :language, language_by = :by, words_after = '' WHERE chat_id = :chat
""")
_NOTE = text("""
    UPDATE chats SET language_by = coalesce(:by, language_by), language_at = message_count WHERE chat_id = :chat
""")
_DECLARE = text(f"UPDATE chats SET language_by = '{DECLARED}' WHERE chat_id = :chat")
_FORGET = text("UPDATE chats SET language_by = NULL, language_at = 0 WHERE chat_id = :chat")
_WORDS_AFTER = text("SELECT words_after FROM chats WHERE chat_id = :chat")
# The first half and the last half by time, of messages by users and assistants.
_OF_CHAT = """SELECT id, left(content, :chars) AS content FROM messages
    WHERE chat_id = :chat AND role IN ('user', 'assistant') AND content <> ''"""
_SAMPLE = text(f"""
    SELECT content FROM (
        ({_OF_CHAT} ORDER BY sent_at LIMIT :half) UNION ({_OF_CHAT} ORDER BY sent_at DESC LIMIT :half)) AS said
    ORDER BY id
""")
_INDEX_MESSAGES = text(f"""
    WITH next AS MATERIALIZED (
        SELECT id, external_id, language, tsv, words_of(:language, content) AS words, length(tsv) AS lexemes
        FROM messages WHERE chat_id = :chat AND external_id > :after
        ORDER BY external_id LIMIT :limit FOR NO KEY UPDATE
    ), changed AS (
        UPDATE messages m SET language = :language FROM next
        WHERE m.chat_id = :chat AND m.id = next.id
            AND (next.language <> :language OR next.tsv IS DISTINCT FROM next.words)
        RETURNING m.tenant_id, m.id, length(m.tsv) - coalesce(next.lexemes, 0) AS gained
    ), gone_on AS (
        UPDATE chats SET words_after = coalesce((SELECT max(external_id) FROM next), words_after) WHERE chat_id = :chat
    )
    SELECT (SELECT count(*) FROM next), (SELECT count(*) FROM changed),
        (SELECT coalesce(sum(gained), 0) FROM changed c WHERE NOT {waits("c")})
""")
_OTHER = """WHERE chat_id = :chat AND (language <> :language OR tsv IS DISTINCT FROM words_of(:language, search_text))
        ORDER BY id LIMIT :limit FOR NO KEY UPDATE"""
# Only extractive summaries of whole sessions are redone: a model reads every language, and pruned sessions say less.
_INDEX_SESSIONS = text(f"""
    WITH next AS MATERIALIZED (
        SELECT id, language <> :language AS differs FROM conversation_sessions
        {_OTHER}
    ), changed AS (
        UPDATE conversation_sessions s SET language = :language FROM next
        WHERE s.chat_id = :chat AND s.id = next.id
        RETURNING s.id, session_key, started_at, ended_at, message_count,
            next.differs AND status <> 'merged' AS differs,
            summary_revision IS NOT NULL AND summary_model = '{EXTRACTIVE}' AS summarized
    ), whole AS (
        SELECT c.id FROM changed c WHERE c.differs AND c.summarized AND c.message_count <= (
            SELECT count(*) FROM messages m WHERE m.chat_id = :chat AND m.session_key = c.session_key
                AND m.sent_at BETWEEN c.started_at AND c.ended_at)
    )
    SELECT c.id, c.differs, whole.id IS NOT NULL AS summarized FROM changed c LEFT JOIN whole ON whole.id = c.id
""")
_SHARES = text("""
    SELECT language, sum(message_count)::bigint FROM chats WHERE moved_to IS NULL AND message_count > 0
    GROUP BY language
""")


class Indexed(NamedTuple):
    """The outcome of reindexing a slice of messages."""

    # whether there may be more
    more: bool
    # messages whose indexed words changed
    messages: int
    # distinct lexemes that the placed messages gained
    lexemes: int


class IndexedSessions(NamedTuple):
    """The outcome of reindexing a slice of sessions."""

    # whether there may be more
    more: bool
    # sessions that were in another language, and those of them with an extractive summary to redo
    changed: list[int]
    summarized: list[int]


def enqueue(connection: Connection, tenant_id: str, chat_id: str, *, priority: int = jobs.LATER) -> None:
    """Enqueue the job that detects a chat's language and reindexes its words."""
    jobs.enqueue(connection, tenant_id, LANGUAGE.name, [chat_id], lane=chat_id, priority=priority)


def set_language(connection: Connection, chat_id: str, language: str, by: str) -> None:
    """Set a chat's language and its origin; messages and sessions keep their words until they are reindexed."""
    run(connection, _SET, chat=chat_id, language=language, by=by)


def declare(connection: Connection, tenant_id: str, chat_id: str, language: str, *, differs: bool) -> None:
    """Declare a chat's language, or with `auto` have it detected; a job reindexes if it `differs`."""
    if language == AUTO:
        forget(connection, chat_id)
    elif differs:
        set_language(connection, chat_id, language, DECLARED)
    else:
        run(connection, _DECLARE, chat=chat_id)
        return
    enqueue(connection, tenant_id, chat_id)


def mark_examined(connection: Connection, chat_id: str, by: str | None) -> None:
    """Record that a chat's language was examined now, and its origin if known."""
    run(connection, _NOTE, chat=chat_id, by=by)


def forget(connection: Connection, chat_id: str) -> None:
    """Clear the origin of a chat's language, and that it was examined."""
    run(connection, _FORGET, chat=chat_id)


def index_all(connection: Connection, chat_id: str) -> None:
    """Mark everything in a chat to be reindexed, from the first message on."""
    run(connection, "UPDATE chats SET words_after = '' WHERE chat_id = :chat", chat=chat_id)


def words_after(connection: Connection, chat_id: str) -> str | None:
    """Return the message up to which words are reindexed; None if all are."""
    return next(iter(column(connection, _WORDS_AFTER, chat=chat_id)), None)


def sample(connection: Connection, chat_id: str, limit: int, chars: int) -> list[str]:
    """Return the first and the last texts of a chat, each cut to `chars` characters."""
    return column(connection, _SAMPLE, chat=chat_id, half=limit // 2, chars=chars)


def index_messages(connection: Connection, chat_id: str, language: str, after: str, limit: int) -> Indexed:
    """Reindex the next messages of a chat, by external id, in a language, and record the last one."""
    values = {"chat": chat_id, "language": language, "after": after, "limit": limit}
    seen, changed, gained = run(connection, _INDEX_MESSAGES, **values).one()
    return Indexed(more=seen == limit, messages=int(changed), lexemes=int(gained))


def index_sessions(connection: Connection, chat_id: str, language: str, limit: int) -> IndexedSessions:
    """Reindex the next sessions of a chat in a language."""
    rows = run(connection, _INDEX_SESSIONS, chat=chat_id, language=language, limit=limit).all()
    return IndexedSessions(
        more=len(rows) == limit,
        changed=[row.id for row in rows if row.differs],
        summarized=[row.id for row in rows if row.summarized],
    )


def mark_indexed(connection: Connection, chat_id: str) -> None:
    """Record that everything in a chat is indexed in its language."""
    run(connection, "UPDATE chats SET words_after = NULL WHERE chat_id = :chat", chat=chat_id)


def shares(connection: Connection) -> dict[str, int]:
    """Count the placed messages of the tenant by the language of their chat."""
    return {language: int(messages) for language, messages in run(connection, _SHARES)}
