"""Load and write the texts that are embedded: a short header that says where they come from, and the content.

A message's header is only its speaker, and a question is embedded without the names of people in the chat
(`pipeline.question.parse`): a name in the question ranks short messages with little else than that name first, and
words that all headers share make messages more alike. A session, one in place of many messages, has the whole header.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b

from sqlalchemy import Connection

from pipeline.enrich.summarize import stored_summary
from pipeline.store import chats, memories, messages, sessions
from schemas.sessions import Message, Session, Summary

_MAX_PARTICIPANTS = 8
_MAX_TOPICS = 6  # more would take the place of sentences in the 256 word pieces that MiniLM reads
_MAX_VALUE_CHARS = 80


@dataclass(frozen=True, kw_only=True)
class OwnedText:
    """A text to embed, and the row whose vector it becomes."""

    # `message`, `session` or `memory`
    owner: str
    id: str
    text: str

    @property
    def key(self) -> str:
        """Return its job's key."""
        return f"{self.owner}:{self.id}"

    @cached_property
    def hash(self) -> bytes:
        """Hash the text (BLAKE2b, 16 bytes)."""
        return blake2b(self.text.encode(), digest_size=16).digest()


def load(connection: Connection, keys: Iterable[str]) -> list[OwnedText]:
    """Load the texts behind `owner:id` keys, with their headers; skip rows that are gone or have no text."""
    ids: dict[str, list[str]] = {"message": [], "session": [], "memory": []}
    for key in keys:
        owner, _, identity = key.partition(":")
        ids[owner].append(identity)
    texts = [
        OwnedText(owner="message", id=str(message.id), text=message_document(message))
        for message in messages.by_id(connection, map(int, ids["message"]))
        if message.content
    ]
    titles: dict[str, str] = {}
    for identity in ids["session"]:
        row = sessions.find(connection, int(identity))
        summary = stored_summary(row) if row is not None and row.id == int(identity) else None
        if row is None or summary is None:
            continue
        if row.chat_id not in titles:
            chat = chats.get(connection, row.chat_id)
            titles[row.chat_id] = chat.title if chat else ""
        body = session_document(sessions.as_session(row), titles[row.chat_id], summary)
        texts.append(OwnedText(owner="session", id=identity, text=body))
    if ids["memory"]:
        rows = memories.contents(connection, ids["memory"])
        texts += [OwnedText(owner="memory", id=str(identity), text=content) for identity, content in rows]
    return texts


def session_document(session: Session, title: str, summary: Summary) -> str:
    """Write a session: `group: … | time: … to … | participants: … | topics: …` as far as known, then its summary.

    `title` is the chat's. Times are UTC, participants the first 8.
    """
    parts = [
        ("group", _value(title)),
        ("time", f"{_utc(session.started_at)} to {_utc(session.ended_at)}"),
        ("participants", ", ".join(_value(name) for name in session.participants[:_MAX_PARTICIPANTS])),
        ("topics", ", ".join(_value(topic) for topic in summary.topics[:_MAX_TOPICS])),
    ]
    return _document(parts, summary.summary)


def message_document(message: Message) -> str:
    """Write a message: `participants: …` with its speaker, then its text.

    Only the message's own fields, so that no later message changes what was embedded.
    """
    return _document([("participants", _value(message.speaker))], message.content)


def _document(parts: Iterable[tuple[str, str]], text: str) -> str:
    header = " | ".join(f"{name}: {value}" for name, value in parts if value)
    return f"{header}\n{text}" if header else text


def _value(text: str) -> str:
    """Put a name or title on one line, without the header's separator."""
    return " ".join(text.replace("|", " ").split())[:_MAX_VALUE_CHARS]


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"
