"""Load and compose the texts to embed, and embed them with a model that may fail on some of them.

A message's header is only its speaker, and a question is embedded without the names of people in the chat
(`pipeline.recall.question.parse`): a name in the question would rank short messages of little else than that name
first, and words that all headers share make messages more similar. A session, standing for many messages, has the
full header.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from math import hypot

import structlog
from sqlalchemy import Connection

from pipeline.clients.protocols import Embedder
from pipeline.enrich.summaries.summarizers import stored_summary
from pipeline.store.chats import chats
from pipeline.store.memories import memory_rows
from pipeline.store.messages import message_rows
from pipeline.store.sessions import session_rows
from pipeline.text import tokens
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.sessions import Message, Session, Summary
from schemas.vectors import Vector

_MAX_PARTICIPANTS = 8
_MAX_TOPICS = 6  # more would take the place of sentences in the 256 word pieces that MiniLM reads
_MAX_VALUE_CHARS = 80

MAX_CHUNKS = 32
"""Most chunks of one text that are embedded; the rest of the text is not."""
# one in so many of a chunk's tokens repeats the end of the previous chunk
_OVERLAP_SHARE = 8


@dataclass(frozen=True, kw_only=True)
class OwnedText:
    """A text to embed, and the row whose vector it becomes."""

    # `message`, `session` or `memory`
    owner: str
    id: str
    text: str
    # the header, with which `text` begins
    header: str = ""

    @property
    def key(self) -> str:
        """Return its job's key."""
        return f"{self.owner}:{self.id}"

    @cached_property
    def hash(self) -> bytes:
        """Hash the text (BLAKE2b, 16 bytes)."""
        return blake2b(self.text.encode(), digest_size=16).digest()

    def chunks(self, *, max_tokens: int, count: Callable[[str], int], max_chars: int) -> list[str]:
        """Cut the first `max_chars` characters into at most `MAX_CHUNKS` texts that a model reads whole.

        Each begins with the header, if that leaves at least half of its room.
        """
        text = self.text[:max_chars]
        # a character is hardly ever more than one token, so most messages need no counting
        if len(text) <= max_tokens or count(text) <= max_tokens:
            return [text]
        header, room = self.header, max_tokens - count(self.header)
        if room < max_tokens // 2:
            header, room = "", max_tokens
        parts = tokens.split_chunks(
            text[len(header) :], limit=room, overlap=room // _OVERLAP_SHARE, count=count
        )
        return [header + part.text for part in parts[:MAX_CHUNKS]] or [text]


def load_texts(connection: Connection, keys: Iterable[str]) -> list[OwnedText]:
    """Load the texts behind `owner:id` keys, with their headers; skip rows that are gone or have no text."""
    ids: dict[str, list[str]] = {"message": [], "session": [], "memory": []}
    for key in keys:
        owner, _, identity = key.partition(":")
        ids[owner].append(identity)
    texts = [
        _owned("message", str(message.id), *message_document(message))
        for message in message_rows.by_id(connection, map(int, ids["message"]))
        if message.content
    ]
    titles: dict[str, str] = {}
    for identity in ids["session"]:
        row = session_rows.find(connection, int(identity))
        summary = stored_summary(row) if row is not None and row.id == int(identity) else None
        if row is None or summary is None:
            continue
        if row.chat_id not in titles:
            chat = chats.get(connection, row.chat_id)
            titles[row.chat_id] = chat.title if chat else ""
        document = session_document(session_rows.as_session(row), titles[row.chat_id], summary)
        texts.append(_owned("session", identity, *document))
    if ids["memory"]:
        rows = memory_rows.contents(connection, ids["memory"])
        texts += [OwnedText(owner="memory", id=str(identity), text=content) for identity, content in rows]
    return texts


def _owned(owner: str, identity: str, header: str, body: str) -> OwnedText:
    return OwnedText(owner=owner, id=identity, text=header + body, header=header)


def session_document(session: Session, title: str, summary: Summary) -> tuple[str, str]:
    """Compose a session's text: the header `group: … | time: … to … | participants: … | topics: …` and the summary.

    Unknown parts are left out; `title` is the chat's. Times are UTC, participants the first 8.
    """
    parts = [
        ("group", _value(title)),
        ("time", f"{_utc(session.started_at)} to {_utc(session.ended_at)}"),
        ("participants", ", ".join(_value(name) for name in session.participants[:_MAX_PARTICIPANTS])),
        ("topics", ", ".join(_value(topic) for topic in summary.topics[:_MAX_TOPICS])),
    ]
    return _document(parts, summary.summary)


def message_document(message: Message) -> tuple[str, str]:
    """Compose a message's text: the header `participants: …` with its speaker, and the content.

    It uses only the message's own fields, so that no later message makes its vector outdated.
    """
    return _document([("participants", _value(message.speaker))], message.content)


def _document(parts: Iterable[tuple[str, str]], text: str) -> tuple[str, str]:
    header = " | ".join(f"{name}: {value}" for name, value in parts if value)
    return (f"{header}\n" if header else "", text)


def _value(text: str) -> str:
    """Put a name or title on one line, without the header's separator."""
    return " ".join(text.replace("|", " ").split())[:_MAX_VALUE_CHARS]


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


log = structlog.get_logger(__name__)

UNIT_TOLERANCE = 0.05
"""How far from 1 a vector's length may be: half-precision models are only so exact."""
SHORTENED_CHARS = 1000
"""Characters tried of a text that the model refuses."""
PROBE = "Hello"
"""A text that every working model embeds."""


def embed_all(client: Embedder, texts: Sequence[str]) -> list[Vector | ProviderRejected]:
    """Return a vector for each text, or why it has none; a text that breaks the model affects no other.

    A model that fails on a short probe, too, is out of order: raises `ProviderUnavailable`. Otherwise the texts are
    halved until those that break it are isolated, in about log2 n calls each. Of such a text the first
    `SHORTENED_CHARS` characters are embedded, if the model takes these.
    """
    if not texts:
        return []
    try:
        return [*_ask(client, texts)]
    except (ProviderFailed, ProviderRejected) as error:
        if isinstance(error, ProviderFailed):
            _require_working(client, error)
        # texts that are sent again may cost money again
        log.warning("embedding_batch_halved", space=client.space.name, texts=len(texts), error=str(error))
        return _halved(client, texts, error)


def _halved(
    client: Embedder, texts: Sequence[str], error: ProviderFailed | ProviderRejected
) -> list[Vector | ProviderRejected]:
    """Embed texts in halves after the model failed on them together."""
    if len(texts) == 1:
        return [_shortened(client, texts[0], error)]
    answers: list[Vector | ProviderRejected] = []
    for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        try:
            answers += _ask(client, half)
        except (ProviderFailed, ProviderRejected) as failure:
            answers += _halved(client, half, failure)
    return answers


def _shortened(
    client: Embedder, text: str, error: ProviderFailed | ProviderRejected
) -> Vector | ProviderRejected:
    """Embed a text shortened after the model failed on it alone."""
    if isinstance(error, ProviderRejected) and len(text) <= SHORTENED_CHARS:
        return error
    try:
        return _ask(client, [text[:SHORTENED_CHARS]])[0]
    except ProviderRejected as rejected:
        return rejected
    except ProviderFailed as failure:
        # it may have broken down since the last call
        _require_working(client, failure)
        return ProviderRejected(f"{failure}; it embeds other texts")


def _require_working(client: Embedder, error: ProviderFailed) -> None:
    """Raise `ProviderUnavailable` if the model does not embed the probe either."""
    try:
        _ask(client, [PROBE])
    except (ProviderFailed, ProviderRejected):
        raise ProviderUnavailable(f"{error}; nor does it embed “{PROBE}”") from error


def _ask(client: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return the model's vectors; raise `ProviderFailed` for a wrong number, size or length of vectors.

    A vector of zeros or NaN would be stored, but no query would find it.
    """
    vectors = client.embed_documents(texts)
    space = client.space
    if len(vectors) != len(texts):
        raise ProviderFailed(f"{space.name} answered {len(vectors)} vectors for {len(texts)} texts")
    for vector in vectors:
        if len(vector) != space.dimensions or not abs(hypot(*vector) - 1) <= UNIT_TOLERANCE:
            raise ProviderFailed(
                f"{space.name} answered a vector of {len(vector)} dimensions and length {hypot(*vector):.3g} "
                f"where {space.dimensions} and 1 are right"
            )
    return vectors
