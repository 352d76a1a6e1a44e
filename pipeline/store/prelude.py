"""SQL of all that a question needs of its chat before it is searched, in one statement.

Who is there, what was said and asked last, the space of the vectors, and the lexemes of the question's words. A trip to
the server costs as much as any of these.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store import messages, sessions, vectors
from pipeline.store.chats import CHAT_COLUMNS, Chat
from pipeline.store.statements import run
from pipeline.store.vector_search import is_worth_an_index
from schemas.sessions import Message, RepliedTo
from schemas.vectors import EmbeddingSpace

# Words of a question that are looked up one by one, to be put together as the question is read; of a longer text this
# would take longer than to look up what is left of it.
MAX_WORDS = 64
# What may begin a tag, which is one word for Postgres' parser whatever is in it.
_TAG = "<"
_RECENT = ", ".join(f"r.{name}" for name in (*messages.COLUMNS.split(", "), "answered"))
_SPACE = ", ".join(f"s.{name}" for name in vectors.COLUMNS.split(", "))


@lru_cache(maxsize=2)
def _statement(*, of_key: bool) -> TextClause:
    # json and not rows, as there are several lists of different lengths
    return text(f"""
        SELECT now() AS now, c.*, people.names, people.began, people.asker,
            (SELECT json_agg(json_build_array(query, asked_at)) FILTER (WHERE query IS NOT NULL) FROM (
                SELECT query, asked_at FROM query_log WHERE chat_id = :chat
                ORDER BY asked_at DESC LIMIT :logged) asked) AS logged,
            (SELECT json_agg(json_build_array({_RECENT})) FROM (
                {messages.newest(of_key=of_key)}) r) AS recent,
            (SELECT json_build_array({_SPACE}) FROM embedding_spaces s
                WHERE status = 'active' AND to_regclass('message_vectors') IS NOT NULL) AS space,
            (SELECT reltuples FROM pg_class WHERE oid = to_regclass('message_vectors')) AS everywhere,
            (SELECT indisvalid FROM embedding_spaces s JOIN pg_index i
                ON i.indexrelid = to_regclass('{vectors.INDEX_PREFIX}' || s.id)
                WHERE status = 'active') AS is_indexed,
            EXISTS (SELECT 1 FROM memories) AS has_memories,
            (SELECT key FROM tenant_keys) AS key,
            (SELECT json_object_agg(word, tsvector_to_array(words_of(c.language, word)))
                FROM unnest(CAST(:words AS text[])) AS word) AS lexemes
        FROM (SELECT) always LEFT JOIN LATERAL (SELECT {CHAT_COLUMNS} FROM chats WHERE chat_id = :chat) c ON true
        CROSS JOIN LATERAL ({sessions.PEOPLE}) people
    """)


@dataclass(frozen=True, kw_only=True)
class Prelude:
    """What a question needs of its chat, as it was when the question came."""

    chat: Chat
    # who spoke there, when it began, and what to call the asker; None: nobody is named
    names: Sequence[str]
    began: datetime | None
    asker: str | None
    # the database's time
    now: datetime
    # the questions of its log with their times, newest first
    logged: Sequence[tuple[str, datetime]]
    # its newest messages, newest first
    recent: Sequence[Message]
    # the space that the tenant's vectors are in, and whether those of this chat are found by an index
    space: EmbeddingSpace | None
    indexed: bool
    # whether the tenant has any memory
    has_memories: bool
    # of the tenant's suppression list
    suppression_key: bytes | None = field(repr=False)
    # of words of the question
    _lexemes: Mapping[str, list[str]]

    def lexemes(self, content: str) -> list[str] | None:
        """Return the lexemes of a text of words that were looked up; None: there are others in it."""
        words = content.split()
        if _TAG in content or not all(word in self._lexemes for word in words):
            return None
        return sorted(set(chain.from_iterable(self._lexemes[word] for word in words)))


def read(
    connection: Connection,
    chat_id: str,
    asker: str | None,
    texts: Iterable[str],
    *,
    logged: int,
    recent: int,
    session_key: str | None = None,
    until: datetime | None = None,
) -> Prelude | None:
    """Read what questions of these texts need of a chat, or of the one that has its messages now.

    At most `logged` questions and `recent` messages: of one session key, and said before a time, if given. None if the
    tenant has no such chat.
    """
    words = _words(texts)

    def row_of(chat: str) -> Row[Any]:
        statement = _statement(of_key=session_key is not None)
        given = {"asker": asker or None, "within": sessions.NAMES_WITHIN, "key": session_key, "until": until}
        return run(connection, statement, chat=chat, words=words, logged=logged, limit=recent, **given).one()

    row = row_of(chat_id)
    if row.moved_to is not None:
        row = row_of(row.moved_to)
    return None if row.chat_id is None else _prelude(row)


def _prelude(row: Row[Any]) -> Prelude:
    found = row._mapping
    chat = Chat(**{name: found[name] for name in CHAT_COLUMNS.split(", ")})
    space = (
        EmbeddingSpace(**dict(zip(vectors.COLUMNS.split(", "), row.space, strict=True)))
        if row.space
        else None
    )
    worth_it = is_worth_an_index(chat.message_count, max(float(row.everywhere or 0), 0.0))
    return Prelude(
        chat=chat,
        names=list(row.names or []),
        began=row.began,
        asker=row.asker,
        now=row.now,
        logged=[(query, datetime.fromisoformat(at)) for query, at in row.logged or ()],
        recent=[_message(*each) for each in row.recent or ()],
        space=space,
        indexed=space is not None and worth_it and bool(row.is_indexed),
        has_memories=bool(row.has_memories),
        suppression_key=None if row.key is None else bytes(row.key),
        _lexemes=row.lexemes or {},
    )


def _message(*values: Any) -> Message:
    """Return a row of `messages.COLUMNS` and what it answers, as JSON has them, as a value."""
    *own, answered = values
    named = dict(zip(messages.COLUMNS.split(", "), own, strict=True))
    named["sent_at"] = datetime.fromisoformat(named["sent_at"])
    return Message(**named, answered=RepliedTo(*answered) if answered else None)


def _words(texts: Iterable[str]) -> Collection[str]:
    words = list(dict.fromkeys(chain.from_iterable(each.split() for each in texts)))
    return words if len(words) <= MAX_WORDS else []
