"""SQL of all the data of a chat that a question needs before the search, in one statement.

Who is there, what was said and asked last, the space of the vectors, and the lexemes of the question's words. A trip to
the server costs as much as any of these.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store import vectors
from pipeline.store.chats import membership
from pipeline.store.chats.chats import CHAT_COLUMNS, Chat
from pipeline.store.chats.membership import Member, Present
from pipeline.store.connections.statements import run
from pipeline.store.jobs.jobs import LANE, LATER, LIVE
from pipeline.store.messages import message_rows
from pipeline.store.search import keyword_search
from pipeline.store.search.vector_search import TABLE_OF_CHAT, by_its_index
from pipeline.store.sessions import session_rows
from schemas.kinds import EMBED
from schemas.sessions import Message
from schemas.vectors import EmbeddingSpace

# Words of a question that are looked up one by one, to be put together as the question is read; of a longer text this
# would take longer than to look up what is left of it.
MAX_WORDS = 64
# What may begin a tag or a path, which Postgres' parser reads otherwise among other words than by itself.
_TAG, _PATH = "<", "~"
_RECENT = ", ".join(f"r.{name}" for name in (*message_rows.COLUMNS.split(", "), "answered"))
# Everybody whose names may count: those here, and those of chats with all who are here.
_CHATS = "ARRAY(SELECT place->>'chat_id' FROM jsonb_array_elements(present.places) AS place) || CAST(:chat AS text)"
_WHO = f"""
    SELECT json_build_array(
        json_build_array({", ".join(f"present.{name}" for name in Present._fields)}),
        (SELECT json_agg(json_build_array({", ".join(Member._fields)})) FROM (
            {membership.member_names(f"({_CHATS})")}) member))
    FROM ({membership.PRESENT}) present
"""
_ACTIVE = "(SELECT id FROM embedding_spaces WHERE status = 'active')"
_SPACE = ", ".join(f"s.{name}" for name in vectors.COLUMNS.split(", "))


@lru_cache(maxsize=2)
def _statement(*, of_key: bool) -> TextClause:
    # json and not rows, as there are several lists of different lengths
    return text(f"""
        SELECT now() AS now, c.*, people.people, people.began, people.asker, people.sessions,
            (SELECT json_agg(json_build_array(query, asked_at)) FILTER (WHERE query IS NOT NULL) FROM (
                SELECT query, asked_at FROM query_log WHERE chat_id = :chat
                ORDER BY asked_at DESC LIMIT :logged) asked) AS logged,
            (SELECT json_agg(json_build_array({_RECENT})) FROM (
                {message_rows.newest(of_key=of_key)}) r) AS recent,
            (SELECT json_build_array({_SPACE}) FROM embedding_spaces s
                WHERE status = 'active' AND to_regclass('message_vectors') IS NOT NULL) AS space,
            indexed.everywhere, indexed.is_indexed,
            CASE WHEN :remembers AND EXISTS (SELECT 1 FROM memories) THEN ({_WHO}) END AS who,
            CASE WHEN CAST(:of_key AS text) IS NOT NULL THEN (
                SELECT sum(message_count) FROM conversation_sessions
                WHERE chat_id = :chat AND session_key = :of_key AND status <> 'merged') END AS of_key,
            (SELECT key FROM tenant_keys) AS key,
            EXISTS (SELECT FROM arrivals a WHERE a.chat_id = c.chat_id AND quarantined_at IS NULL) OR EXISTS (
                SELECT FROM jobs WHERE kind = '{EMBED.name}' AND priority IN ({LIVE}, {LATER}) AND lane = c.lane
                    AND due_at IS NOT NULL AND claimed IS NULL) OR EXISTS (
                SELECT FROM jobs WHERE kind = '{EMBED.name}' AND claimed IS NOT NULL AND lane = c.lane) AS waits,
            (SELECT json_object_agg(word, tsvector_to_array(words_of(c.language, word)))
                FROM unnest(CAST(:words AS text[])) AS word) AS lexemes
        FROM (SELECT) always LEFT JOIN LATERAL (
            SELECT {CHAT_COLUMNS}, {LANE.format(lane="chat_id")} AS lane FROM chats WHERE chat_id = :chat) c ON true
        CROSS JOIN LATERAL ({session_rows.PEOPLE}) people
        LEFT JOIN LATERAL ({TABLE_OF_CHAT.format(space=_ACTIVE)}) indexed ON true
    """)


class Shared(NamedTuple):
    """The number of sessions in which a person spoke."""

    sessions: int
    # the number of these in which the asker spoke, too
    with_asker: int


@dataclass(frozen=True, kw_only=True)
class Latest:
    """How much of what was said and asked last is read."""

    # the most questions and messages
    questions: int
    messages: int
    # messages of this session key only, and said before this time
    session_key: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ChatSnapshot:
    """What a question needs of its chat, as it was when the question came."""

    chat: Chat
    # who spoke there, in how many of its sessions; when it began, and what to call the asker; None: nobody is named
    people: Mapping[str, Shared]
    sessions: int
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
    # how many messages there are in scope: of the chat, or of one session key
    size: int
    # who is there, and the members of all chats that may matter; None: the tenant has no memory, or none is wanted
    present: Present | None
    members: Sequence[Member]
    # whether some of its messages wait for their place or their vectors
    waits: bool
    # of the tenant's suppression list
    suppression_key: bytes | None = field(repr=False)
    # of words of the question
    _lexemes: Mapping[str, list[str]]

    @property
    def names(self) -> Sequence[str]:
        """Who spoke there."""
        return list(self.people)

    @property
    def newest(self) -> int | None:
        """The id of the newest message that was read."""
        return self.recent[0].id if self.recent else None

    def lexemes(self, content: str) -> list[str] | None:
        """Return the lexemes of a text of words that were looked up; None: there are others in it."""
        words = content.split()
        if _TAG in content or _PATH in content or not all(word in self._lexemes for word in words):
            return None
        return sorted(set(chain.from_iterable(self._lexemes[word] for word in words)))


def read(
    connection: Connection,
    chat_id: str,
    asker: str | None,
    texts: Iterable[str],
    latest: Latest,
    *,
    of_key: str | None = None,
    remembers: bool = False,
) -> ChatSnapshot | None:
    """Read what questions of these texts need of a chat, or of the one that has its messages now.

    `of_key` is the session key that is asked about, None all the chat; with `remembers` also who is there, if there are
    memories. None if the tenant has no such chat.
    """
    words = _words(texts)

    def row_of(chat: str) -> Row[Any]:
        return run(
            connection,
            _statement(of_key=latest.session_key is not None),
            chat=chat,
            asker=asker or None,
            within=session_rows.NAMES_WITHIN,
            words=words,
            logged=latest.questions,
            limit=latest.messages,
            key=latest.session_key,
            until=latest.until,
            of_key=of_key,
            remembers=remembers,
        ).one()

    row = row_of(chat_id)
    if row.moved_to is not None:
        row = row_of(row.moved_to)
    return None if row.chat_id is None or row.emptying else _snapshot(row, of_key)


def lexemes_of(connection: Connection, snapshot: ChatSnapshot, texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the lexemes of each text; those of words that the snapshot did not look up are looked up at once."""
    known = {text: snapshot.lexemes(text) for text in texts}
    missing = [text for text, lexemes in known.items() if lexemes is None]
    looked_up = keyword_search.all_lexemes(connection, snapshot.chat.language, missing) if missing else []
    return {text: lexemes for text, lexemes in known.items() if lexemes is not None} | dict(
        zip(missing, looked_up, strict=True)
    )


def _snapshot(row: Row[Any], of_key: str | None) -> ChatSnapshot:
    columns = row._mapping
    chat = Chat(**{name: columns[name] for name in CHAT_COLUMNS.split(", ")})
    space = vectors.as_space(zip(vectors.COLUMNS.split(", "), row.space, strict=True)) if row.space else None
    return ChatSnapshot(
        chat=chat,
        people={name: Shared(*counts) for name, counts in (row.people or {}).items()},
        sessions=row.sessions or 0,
        began=row.began,
        asker=row.asker,
        now=row.now,
        logged=[(query, datetime.fromisoformat(at)) for query, at in row.logged or ()],
        recent=[_said(values) for values in row.recent or ()],
        space=space,
        indexed=space is not None and by_its_index(chat.message_count, row.everywhere, row.is_indexed),
        size=chat.message_count if of_key is None else int(row.of_key or 0),
        present=None if row.who is None else Present(*row.who[0]),
        members=[Member(*values) for values in (row.who and row.who[1]) or ()],
        waits=row.waits,
        suppression_key=None if row.key is None else bytes(row.key),
        _lexemes=row.lexemes or {},
    )


def _said(values: Sequence[Any]) -> Message:
    """Return a message that was read as JSON."""
    message = message_rows.as_message(values)
    return message._replace(sent_at=datetime.fromisoformat(str(message.sent_at)))


def _words(texts: Iterable[str]) -> Collection[str]:
    words = list(dict.fromkeys(chain.from_iterable(text.split() for text in texts)))
    return words if len(words) <= MAX_WORDS else []
