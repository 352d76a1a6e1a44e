"""SQL of the languages that chats are in: telling one by its stop words, and making keyword vectors in another."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, text

from schemas.messages import LANGUAGES

_STEMMED = [language for language in LANGUAGES if language != "simple"]
MOST_COMMON = 300
"""Words that are looked up in each language's list; stop words are the most common ones."""


_STOP_WORDS = text("""
    SELECT language, sum(times) FROM unnest(CAST(:words AS text[]), CAST(:times AS bigint[])) AS w (word, times)
    CROSS JOIN unnest(CAST(:languages AS text[])) AS language
    WHERE ts_lexize(CAST(language || '_stem' AS regdictionary), word) = '{}'
    GROUP BY language
""")

_SET_LANGUAGE = text("UPDATE chats SET language = :language WHERE chat_id = :chat")


def stop_words(connection: Connection, counts: Mapping[str, int]) -> dict[str, int]:
    """By language how many of these words stand in Postgres' own list of its stop words, where it has one."""
    common = Counter(counts).most_common(MOST_COMMON)
    rows = connection.execute(
        _STOP_WORDS,
        {
            "words": [word for word, _ in common],
            "times": [times for _, times in common],
            "languages": _STEMMED,
        },
    )
    return {language: int(times) for language, times in rows}


def set_language(connection: Connection, chat_id: str, language: str) -> None:
    """Say what language a chat is in; its messages and sessions keep theirs."""
    connection.execute(_SET_LANGUAGE, {"chat": chat_id, "language": language})


_RELABEL_MESSAGES = text("""
    WITH next AS MATERIALIZED (
        SELECT id, external_id, language, length(tsv) AS lexemes FROM messages
        WHERE chat_id = :chat AND external_id > :after ORDER BY external_id LIMIT :limit FOR NO KEY UPDATE
    ), changed AS (
        UPDATE messages m SET language = :language FROM next
        WHERE m.chat_id = :chat AND m.id = next.id AND next.language <> :language
        RETURNING m.tenant_id, m.id, length(m.tsv) - next.lexemes AS gained
    )
    SELECT (SELECT max(external_id) FROM next), (SELECT count(*) FROM changed),
        (SELECT coalesce(sum(gained), 0) FROM changed c WHERE NOT EXISTS (
            SELECT 1 FROM arrivals a WHERE a.tenant_id = c.tenant_id AND a.message_id = c.id))
""")


def relabel_messages(
    connection: Connection, chat_id: str, language: str, after: str, limit: int
) -> tuple[str | None, int, int]:
    """Put the next messages of a chat, by their external ids, into a language.

    `(last id or None at the end, how many were in another, how many distinct lexemes the placed ones gained)`.
    """
    row = connection.execute(
        _RELABEL_MESSAGES, {"chat": chat_id, "language": language, "after": after, "limit": limit}
    ).one()
    return row[0], int(row[1]), int(row[2])


_RELABEL_SESSIONS = text("""
    UPDATE conversation_sessions SET language = :language WHERE id = ANY (ARRAY(
        SELECT id FROM conversation_sessions WHERE chat_id = :chat AND language <> :language
        ORDER BY id LIMIT :limit FOR NO KEY UPDATE))
""")


def relabel_sessions(connection: Connection, chat_id: str, language: str, limit: int) -> int:
    """Put sessions of a chat that are in another language into this one; how many."""
    return connection.execute(
        _RELABEL_SESSIONS, {"chat": chat_id, "language": language, "limit": limit}
    ).rowcount


_IS_MIXED = text("""
    SELECT EXISTS (SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id
            AND m.language <> c.language)
        OR EXISTS (SELECT 1 FROM conversation_sessions s WHERE s.tenant_id = c.tenant_id
            AND s.chat_id = c.chat_id AND s.language <> c.language)
    FROM chats c WHERE chat_id = :chat
""")


def is_mixed(connection: Connection, chat_id: str) -> bool:
    """Whether a chat has a message or a session in another language than its own."""
    return bool(connection.scalar(_IS_MIXED, {"chat": chat_id}))
