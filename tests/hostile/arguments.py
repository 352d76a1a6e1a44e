"""What a hostile caller puts into each parameter, by the parameter's name: ids of others, nothing at all, SQL.

A parameter that is not known here fails the walk: whoever adds one says what may be put into it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from pipeline import backfill, checkup, owed, recall, searching
from pipeline.audience import Visible
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.extractive import ExtractiveSummarizer
from pipeline.diagnosis.stored import Tenant
from pipeline.ledger import Claim, Policy
from pipeline.platforms.records import Record
from pipeline.prune import retention_of
from pipeline.rules import Rules
from pipeline.store import backfills, filters, health, retention, sessions, spaces
from pipeline.store.audience import Seen
from pipeline.store.chats import Chat
from pipeline.store.messages import Arrival
from pipeline.store.scope import Scope
from pipeline.verbatim import Verbatim
from schemas.backfills import BackfillRequest
from schemas.context import Context
from schemas.documents import DocumentFilter, DocumentIn
from schemas.errors import Permanent
from schemas.forgetting import Subject
from schemas.memories import MemoryFilter, MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.querylog import AnswerIn
from schemas.search import MoreQuery, SearchQuery
from schemas.sessions import Session
from schemas.summaries import Summary
from tests.hostile.conftest import Stage
from tests.hostile.victims import MALLORY, SHARED_CHAT, VICTIM

LONG_AGO, FAR_AHEAD = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
SQL = (
    "'; DROP TABLE messages; --",
    "' OR tenant_id <> '' OR '1'='1",
    f"{VICTIM}",
    "%",
    "_%\\",
    "\x00",
    "\ud800",
    "x" * 1_000_000,
)


@dataclass(frozen=True)
class Theme:
    """One way to be hostile: with the victim's ids, with nothing, or with a text in every place for a text."""

    name: str
    text: str | None = None
    empty: bool = False


THEMES = (
    Theme("ids of others"),
    Theme("nothing", text="", empty=True),
    *(Theme(f"the text {text[:30]!r}", text=text) for text in SQL),
)


class Unknown(Exception):
    """Nothing is known of this parameter."""


class Arguments:
    """Makes arguments for one call under one theme."""

    def __init__(self, stage: Stage, theme: Theme, connection: Connection | None = None) -> None:
        self.stage, self.theme, self.connection, self.known = stage, theme, connection, stage.known

    def of(self, function: str, name: str, kind: str) -> Any:
        """The argument for a parameter of a function, of this type."""
        for key in (f"{function}.{name}", f"{name}: {kind}", name):
            if key in BY_NAME:
                return BY_NAME[key](self)
        for shape, value in BY_KIND.items():
            if kind.removesuffix(" | None") == shape and not name.endswith(("id", "ids", "key", "keys")):
                return value
        raise Unknown(f"{function}: what may be put into {name}: {kind}?")

    def name(self, table: str, column: str) -> Any:
        """A text for what is called by a name: the victim's, or that of the theme."""
        return self.known.one(table, column) if self.theme.text is None else self.theme.text

    def names(self, table: str, column: str) -> list[Any]:
        """Several of them."""
        if self.theme.empty:
            return []
        return self.known.all(table, column) if self.theme.text is None else [self.theme.text]

    def maybe(self, table: str, column: str) -> Any:
        """One that may be left out, which asks for everything or for nothing."""
        return None if self.theme.empty else self.name(table, column)

    def ids(self, table: str, column: str = "id") -> list[Any]:
        """The victim's numbers, whatever the texts are."""
        return [] if self.theme.empty else self.known.all(table, column)

    def id(self, table: str) -> int:
        return int(self.known.one(table, "id"))

    @property
    def tenant(self) -> str:
        """On a connection, whom a statement names is not who is served; a `Database` serves whom it is told."""
        if self.connection is None and self.theme.text in (None, VICTIM):
            return MALLORY
        return VICTIM if self.theme.text is None else self.theme.text

    @property
    def text(self) -> str:
        return "lighthouse" if self.theme.text is None else self.theme.text

    @property
    def verbatim(self) -> Verbatim:
        return Verbatim(self.text or "?", "phrase")

    @property
    def chat_id(self) -> Any:
        return f"{VICTIM}:alone" if self.theme.text is None else self.theme.text

    @property
    def chat(self) -> Chat:
        row = next(row for row in self.known.rows["chats"] if row["chat_id"] == f"{VICTIM}:alone")
        named = {name: row[name] for name in Chat.__annotations__}
        return Chat(**(named | {"chat_id": self.chat_id, "message_count": 10**6}))

    @property
    def message(self) -> MessageIn:
        return MessageIn(
            external_id=self.name("messages", "external_id"),
            sender_id=self.name("messages", "sender_id"),
            sender_name=self.text[:200],
            content=self.text,
            session_key=self.name("session_closes", "session_key"),
            closes_session=bool(self.name("session_closes", "session_key")),
            sent_at=datetime(2026, 3, 2, 18, 30, tzinfo=UTC),
            metadata={self.text[:100]: self.text},
        )

    @property
    def memory(self) -> MemoryIn:
        return MemoryIn(
            scope="session",
            session_id=self.id("conversation_sessions"),
            content=self.text,
            learned_in=self.chat_id,
            metadata={"note": self.text},
        )

    @property
    def sessions(self) -> list[Session]:
        return [
            Session(**{name: row[name] for name in Session.__annotations__} | {"participants": ()})
            for row in self.known.rows["conversation_sessions"]
        ]

    @property
    def claims(self) -> list[Claim]:
        return [
            Claim(
                tenant_id=MALLORY,
                kind=kind,
                key=row["key"],
                token=row["token"] or 1,
                attempts=1,
                trace_id=None,
            )
            for kind in ("ingest", "embed", "summarize", "backfill", "forget")
            for row in self.known.rows["work"]
            if row["kind"] == kind
        ]

    @property
    def items(self) -> list[owed.Item]:
        """What an operator of the hostile tenant may name: pieces of work with the victim's keys."""
        return [
            owed.Item(
                tenant_id=MALLORY,
                kind=kind,
                key=key,
                state="dead",
                attempts=1,
                since=LONG_AGO,
                owed_since=LONG_AGO,
                due_at=None,
                error=None,
                trace_id=None,
            )
            for kind, key in [
                *((row["kind"], row["key"]) for row in self.known.rows["work"]),
                *(("arrival", f"message:{row['message_id']}") for row in self.known.rows["arrivals"]),
                *(("backfill", str(row["id"])) for row in self.known.rows["backfills"]),
            ]
        ]

    @property
    def space(self) -> Any:
        assert self.connection is not None
        return spaces.active(self.connection)

    @property
    def scope(self) -> Scope:
        key = None if self.theme.empty else self.name("session_closes", "session_key")
        return Scope(chat_id=self.chat_id, language="english", session_key=key)

    @property
    def filter(self) -> filters.Filter:
        if self.theme.empty:
            return filters.Filter()
        return filters.Filter(
            sender_ids=self.names("messages", "sender_id"),
            agent_id=None if self.theme.text is None else self.theme.text,
            metadata=None if self.theme.text is None else {"note": self.theme.text},
        )

    @property
    def context_query(self) -> ContextQuery:
        # where a chat is there: an own one, of the same name as one of the victim's
        return ContextQuery(
            chat_id=SHARED_CHAT if self.theme.empty or self.theme.text else self.chat_id,
            query=self.text or "?",
            user_id=self.maybe("messages", "sender_id"),
            agent_id=None,
            session_key=self.maybe("session_closes", "session_key"),
            explain=True,
        )

    @property
    def search_query(self) -> SearchQuery:
        return SearchQuery(
            chat_id=SHARED_CHAT,
            query=self.text or "?",
            session_id=None if self.theme.empty else self.id("conversation_sessions"),
            sender_ids=self.names("messages", "sender_id")[:1000],
        )

    @property
    def asked(self) -> recall.Asked:
        own = ContextQuery(chat_id=SHARED_CHAT, query=self.text or "?")
        asked = recall.ask(self.stage.database, MALLORY, own, DeterministicEmbedder(), self.stage.settings)
        asked.chat = self.chat
        return asked

    @property
    def searching(self) -> searching.Searching:
        assert self.connection is not None
        return searching.Searching(
            connection=self.connection,
            query=self.search_query,
            asked=self.asked,
            scope=self.scope,
            which=self.filter,
            words=["lighthous"],
        )

    def subjects(self) -> Subject:
        """Each kind in turn, of the victim's names."""
        kinds = itertools.cycle(
            [
                {"kind": "chat", "chat_id": self.chat_id},
                {"kind": "user", "sender_id": self.name("messages", "sender_id")},
                {
                    "kind": "message",
                    "chat_id": self.chat_id,
                    "external_id": self.name("messages", "external_id"),
                },
            ]
        )
        return Subject.model_validate(next(itertools.islice(kinds, THEMES.index(self.theme), None)))


def _vector() -> list[float]:
    return DeterministicEmbedder().embed_query("lighthouse")


# By type, where the name says nothing: none of these can name a thing.
BY_KIND: dict[str, Any] = {
    "bool": True,
    "int": 1000,
    "float": 0.0,
    "datetime.datetime": FAR_AHEAD,
    "datetime.timedelta": timedelta(hours=1),
}

_SHAPE = sessions.Shape(
    started_at=LONG_AGO, ended_at=LONG_AGO, message_count=1, token_count=1, participants=["Mallory"]
)

BY_NAME: dict[str, Callable[[Arguments], Any]] = {
    "connection": lambda a: a.connection,
    "database": lambda a: a.stage.database,
    "tenant_id": lambda a: a.tenant,
    # none means all, by the maintenance role: an operator's right
    "tenant_id: str | None": lambda _: MALLORY,
    "tenant_ids": lambda _: [MALLORY],
    "all_tenants": lambda _: False,
    # chats, people, messages
    "chat_id": lambda a: a.chat_id,
    "chat_id: str | None": lambda a: None if a.theme.empty else a.chat_id,
    "chat_ids": lambda a: a.names("chats", "chat_id"),
    "chat: pipeline.store.chats.Chat": lambda a: a.chat,
    "chat: schemas.messages.ChatIn": lambda a: ChatIn(chat_id=a.chat_id, title=a.text[:400]),
    "any_id": lambda a: a.name("user_senders", "sender_id"),
    "sender_id": lambda a: a.name("messages", "sender_id"),
    "sender_id: str | None": lambda a: a.maybe("messages", "sender_id"),
    "senders": lambda a: a.names("messages", "sender_id"),
    "senders: Sequence[str] | None": lambda a: None if a.theme.empty else a.names("messages", "sender_id"),
    "user": lambda a: a.name("users", "user_id"),
    "user_id": lambda a: a.name("users", "user_id"),
    "user_id: str | None": lambda a: a.maybe("users", "user_id"),
    "users.merge.into": lambda a: a.name("users", "user_id"),
    "users.merge.user_id": lambda a: a.name("user_senders", "sender_id"),
    "agent_id: str | None": lambda a: a.maybe("memories", "agent_id"),
    "names": lambda a: a.names("messages", "sender_name"),
    "external_id": lambda a: a.name("messages", "external_id"),
    "external_id: str | None": lambda a: a.maybe("messages", "external_id"),
    "external_ids": lambda a: a.names("messages", "external_id"),
    "message_id": lambda a: a.known.one("arrivals", "message_id"),
    "message_ids": lambda a: a.ids("messages"),
    "ids": lambda a: a.ids("messages"),
    "ids: Sequence[int] | None": lambda a: None if a.theme.empty else a.ids("messages"),
    "store.memories.touch.ids": lambda a: [str(each) for each in a.ids("memories")],
    "ids: Sequence[str]": lambda a: a.names("user_senders", "sender_id"),
    "given: Sequence[schemas.messages.MessageIn]": lambda a: [a.message],
    "messages: Sequence[tuple[schemas.messages.MessageIn, int]]": lambda a: [(a.message, 3)],
    "shown": lambda a: a.ids("messages"),
    "arrived": lambda a: [
        Arrival(each, "", LONG_AGO, "Mallory", 1, 1, True) for each in a.ids("arrivals", "message_id")
    ],
    "put": lambda _: lambda _arrived: None,
    "finish": lambda _: lambda _again: None,
    "tell": lambda _: lambda _kind: None,
    "edited_at": lambda _: FAR_AHEAD,
    "start": lambda _: LONG_AGO,
    "since": lambda _: LONG_AGO,
    # texts
    "content": lambda a: a.text,
    "query: str": lambda a: a.text,
    "piece": lambda a: a.text,
    "piece: pipeline.verbatim.Verbatim": lambda a: a.verbatim,
    "exact": lambda a: [] if a.theme.empty else [a.verbatim],
    "parts": lambda a: [] if a.theme.empty else [a.text],
    "reranker": lambda _: None,
    "error: schemas.errors.Permanent": lambda a: Permanent(a.text),
    "error": lambda a: a.text,
    "error: str | None": lambda a: None if a.theme.empty else a.text,
    "reason": lambda a: a.text,
    "prefix": lambda a: a.text,
    "model": lambda a: a.text,
    "model_problem": lambda _: None,
    "wish": lambda a: "cancel" if a.theme.text is None else a.theme.text,
    "words": lambda a: [] if a.theme.empty else ["lighthous", a.text],
    "trace_id": lambda a: f"{VICTIM}-request" if a.theme.text is None else a.theme.text,
    "language": lambda a: "english" if a.theme.text is None else a.theme.text,
    "after: str": lambda a: a.text,
    "after: str | int | None": lambda _: None,
    "after: int": lambda _: 0,
    # sessions
    "session_id": lambda a: a.id("conversation_sessions"),
    "session_ids": lambda a: a.ids("conversation_sessions"),
    "into: int": lambda a: a.id("conversation_sessions"),
    "losers": lambda a: a.ids("conversation_sessions"),
    "session": lambda a: a.sessions[0],
    "joined": lambda a: a.sessions,
    "session_key": lambda a: a.name("session_closes", "session_key"),
    "session_key: str | None": lambda a: a.maybe("session_closes", "session_key"),
    "closes": lambda a: [(a.name("session_closes", "session_key"), LONG_AGO)],
    "places": lambda a: [(a.name("session_closes", "session_key"), datetime(2026, 3, 2, 18, 5, tzinfo=UTC))],
    "shape": lambda _: _SHAPE,
    "summary": lambda a: Summary(summary=(a.text or "?")[:4000]),
    "revision": lambda a: a.known.one("conversation_sessions", "revision"),
    "status": lambda a: "failed" if a.theme.text is None else a.theme.text,
    "status: str | None": lambda a: None if a.theme.empty else a.theme.text,
    # documents
    "document_id": lambda a: a.name("memories", "document_id"),
    "document": lambda a: DocumentIn(
        document_id=a.name("memories", "document_id") or "none", content=a.text or "?"
    ),
    "documents.keep.chunks": lambda a: [a.text or "?"],
    "store.documents.put.chunks": lambda a: [
        (uuid4(), a.known.one("memories", "content_hash"), a.text or "?")
    ],
    "store.documents.drop.keep": lambda _: [],
    "given: schemas.documents.DocumentFilter": lambda _: DocumentFilter(),
    "importance": lambda _: 1.0,
    # memories and vectors
    "memory": lambda a: a.memory,
    "identity": lambda a: UUID(str(a.known.one("memories", "id"))) if a.theme.text is None else uuid4(),
    "content_hash": lambda a: a.known.one("memories", "content_hash"),
    "hashes": lambda a: [] if a.theme.empty else [bytes(each) for each in a.known.all("tombstones", "hash")],
    "store.vectors.known_hashes.hashes": lambda a: [
        bytes(each) for each in a.known.all("message_vectors", "content_hash")
    ],
    "stone": lambda a: bytes(a.known.one("tombstones", "hash")),
    "space": lambda a: a.space,
    "space: schemas.vectors.EmbeddingSpace | None": lambda a: None if a.theme.empty else a.space,
    "space_id": lambda _: 1,
    "size": lambda _: 256,
    "embedding": lambda a: str(_vector()) if a.theme.text is None else a.theme.text,
    "vector": lambda a: None if a.theme.empty else _vector(),
    "query: list[float]": lambda _: _vector(),
    "query: list[float] | None": lambda a: None if a.theme.empty else _vector(),
    "rows: Sequence[tuple[str, bytes, list[float] | None]]": lambda a: [
        (str(each), b"hash", _vector()) for each in a.ids("messages")
    ],
    "store.vectors.put.kind": lambda _: "message",
    "given: schemas.memories.MemoryFilter": lambda a: MemoryFilter(
        user_id=a.maybe("users", "user_id") or None, chat_id=None if a.theme.empty else a.chat_id
    ),
    "users": lambda a: None if a.theme.empty else a.names("users", "user_id"),
    "visible": lambda a: Visible(everywhere=True, chats=frozenset({a.chat_id})),
    "seen: pipeline.store.audience.Seen": lambda a: Seen(
        visible=Visible(everywhere=True, chats=frozenset({a.chat_id})),
        asker_ids=a.names("messages", "sender_id"),
    ),
    "store.tenants.set_setting.name": lambda a: a.text,
    "value": lambda a: a.text,
    "claim": lambda a: a.claims[0],
    "suspects.place_each.put": lambda _: lambda _connection, _arrival: set(),
    # the query log
    "context_id": lambda a: a.name("query_log", "context_id"),
    "context": lambda a: Context(
        context_id=a.name("query_log", "context_id"),
        text=a.text,
        messages=[],
        blocks=[],
        used_tokens=0,
        budget=1,
    ),
    "querylog.report.given": lambda a: AnswerIn(answer=a.text, used=[a.text[:100]], remember=True),
    "store.querylog.insert.row": lambda a: next(iter(a.known.rows["query_log"])) | {"tenant": VICTIM},
    "answer": lambda a: a.text,
    "used": lambda a: None if a.theme.empty else [a.text],
    "memory_id": lambda a: a.known.one("memories", "id"),
    "memory_ids": lambda a: [str(each) for each in a.ids("memories")],
    "store.querylog.hold.messages": lambda a: a.ids("messages"),
    "gone": lambda a: [f"message:{each}" for each in a.ids("messages")],
    "texts": lambda a: [] if a.theme.empty else [a.text],
    "user_ids": lambda a: a.names("query_log", "user_id"),
    "named": lambda a: [("chat", a.chat_id), ("user", a.name("messages", "sender_id"))],
    # work, backfills, receipts
    "kind": lambda a: "embed" if a.theme.text is None else a.theme.text,
    "kind: str | None": lambda a: a.maybe("work", "kind"),
    "tombstones.stands.kind": lambda _: "message",
    "key": lambda a: a.name("work", "key"),
    "key: str | None": lambda a: a.maybe("work", "key"),
    "keys": lambda a: a.names("work", "key"),
    "tokens: Sequence[int]": lambda a: [1 for _ in a.names("work", "key")],
    "rows: Sequence[tuple[str, str, int]]": lambda a: [
        (VICTIM, row["key"], row["token"] or 1) for row in a.known.rows["work"]
    ],
    "state": lambda a: "cancelled" if a.theme.text is None else a.theme.text,
    "state: str | None": lambda a: None if a.theme.empty else a.theme.text,
    "backfill_id": lambda a: a.id("backfills"),
    "receipt_id": lambda a: a.id("forget_receipts"),
    "cursor": lambda a: {"position": a.text},
    "counts: Mapping[str, int]": lambda a: {a.text: 1},
    "values": lambda a: {a.text: 1.0},
    "subject: Mapping[str, typing.Any]": lambda a: {"chat_id": a.text},
    "subject: schemas.forgetting.Subject": lambda a: a.subjects(),
    "subject_hash": lambda a: bytes(a.known.one("forget_receipts", "subject_hash")),
    "claims": lambda a: a.claims,
    "items": lambda a: a.items,
    "item": lambda a: a.items[0],
    "wanted": lambda a: owed.Filter(error=None if a.theme.empty else a.theme.text),
    "request": lambda a: BackfillRequest(
        kind="embed", chat_id=None if a.theme.empty else a.chat_id, missing_only=False
    ),
    # made of constants of their modules, never of what comes in
    "source": lambda a: list(backfills.SOURCES)[THEMES.index(a.theme) % len(backfills.SOURCES)],
    "store.backfills.window.given": lambda a: _window_given(a),
    "store.backfills.count.given": lambda a: _window_given(a),
    "doomed": lambda _: retention.MESSAGES_BY_AGE,
    "given: object": lambda _: {"before": FAR_AHEAD, "batch": 1000},
    "table": lambda _: "messages",
    "statement": lambda a: health.unowed(a.connection, summaries=True)["embed"] if a.connection else "",
    # what comes from the settings
    "settings": lambda a: a.stage.settings,
    "rules": lambda a: Rules.of(a.stage.settings),
    "keep": lambda a: retention_of(a.stage.settings.model_copy(update={"retention_days": 1})),
    "policy": lambda _: Policy(batch=100, lease_seconds=60, max_attempts=3),
    "current": lambda a: backfill.Current(
        rules=Rules.of(a.stage.settings), summary_version=1, min_messages=4
    ),
    "embedder: schemas.vectors.EmbeddingSpace": lambda _: DeterministicEmbedder().space,
    "embedder": lambda _: DeterministicEmbedder(),
    "client: pipeline.clients.protocols.Embedder": lambda _: DeterministicEmbedder(),
    "client: pipeline.clients.protocols.Summarizer": lambda _: ExtractiveSummarizer(),
    # queries
    "query: schemas.payloads.ContextQuery": lambda a: a.context_query,
    "query: schemas.search.SearchQuery": lambda a: a.search_query,
    "query: schemas.search.MoreQuery": lambda a: MoreQuery(
        chat_id=a.chat_id, session_id=a.id("conversation_sessions")
    ),
    "asked": lambda a: a.asked,
    "searching": lambda a: a.searching,
    "scope": lambda a: a.scope,
    "which": lambda a: a.filter,
    "parsed": lambda a: [
        ChatIn(chat_id=a.chat_id),
        Record(chat_id=a.chat_id, message=a.message, where="line 1"),
    ],
    "sample": lambda a: checkup.Sample(chats={MALLORY: a.names("chats", "chat_id")}),
    "tenant: pipeline.diagnosis.stored.Tenant": lambda a: Tenant(
        tenant_id=MALLORY,
        differing=a.names("chats", "chat_id"),
        drifted=a.names("chats", "chat_id"),
        unowed={"embed": 1, "summarize": 1, "ingest": 1},
        orphans=1,
    ),
}


def _window_given(a: Arguments) -> dict[str, Any]:
    """All the parameters that the sources of backfills know."""
    every = {
        "chat": None if a.theme.empty else a.chat_id,
        "since": LONG_AGO,
        "until": FAR_AHEAD,
        "space": 1,
        "version": 1,
        "min_messages": 1,
    }
    source = backfills.SOURCES[BY_NAME["source"](a)]
    return {name: value for name, value in every.items() if name in text(source).compile().params}
