"""The hostile caller: what it knows of another tenant, and says, under one theme."""

import itertools
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.jobs import dead_letters
from pipeline.jobs.runner import Claim
from pipeline.recall import prepare
from pipeline.recall.ask.ask import Ask, ParsedQuestion, parse_question
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.ask.request import RetrievalRequest, SearchTerms, Stopwatch, for_context
from pipeline.store import filters, vectors
from pipeline.store.chats import Chat
from pipeline.store.filters import Scope
from pipeline.text.exact_match import Verbatim
from schemas.forgetting import Subject
from schemas.memories import MemoryIn
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.sessions import Session
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


class Caller:
    """Whoever makes one call under one theme."""

    def __init__(self, stage: Stage, theme: Theme, connection: Connection | None = None) -> None:
        self.stage, self.theme, self.connection, self.known = stage, theme, connection, stage.known

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
            for kind in ("ingest", "embed", "summarize", "extract", "backfill", "forget")
            for row in self.known.rows["jobs"]
            if row["kind"] == kind
        ]

    @property
    def items(self) -> list[dead_letters.ListedJob]:
        """What an operator of the hostile tenant may name: pieces of work with the victim's keys."""
        return [
            dead_letters.ListedJob(
                tenant_id=MALLORY,
                kind=kind,
                key=key,
                state="dead",
                attempts=1,
                since=LONG_AGO,
                pending_since=LONG_AGO,
                due_at=None,
                error=None,
                trace_id=None,
            )
            for kind, key in [
                *((row["kind"], row["key"]) for row in self.known.rows["jobs"]),
                *(("arrival", f"message:{row['message_id']}") for row in self.known.rows["arrivals"]),
                *(("payload", row["key"]) for row in self.known.rows["refused_payloads"]),
                *(("backfill", str(row["id"])) for row in self.known.rows["backfills"]),
            ]
        ]

    @property
    def space(self) -> Any:
        assert self.connection is not None
        return vectors.active_space(self.connection)

    @property
    def scope(self) -> Scope:
        key = None if self.theme.empty else self.name("session_closes", "session_key")
        return Scope(chat_id=self.chat_id, language="english", session_key=key)

    @property
    def filter(self) -> filters.MessageFilter:
        if self.theme.empty:
            return filters.MessageFilter()
        return filters.MessageFilter(
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
            profile=list(PROFILES)[THEMES.index(self.theme) % len(PROFILES)],
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
    def parsed(self) -> ParsedQuestion:
        """The caller's own question, put to the victim's chat."""
        own = ContextQuery(chat_id=SHARED_CHAT, query=self.text or "?")
        with self.stage.database.tenant(MALLORY) as connection:
            request = for_context(connection, own, self.stage.settings)
            parsed = parse_question(connection, request)
        return replace(parsed, request=self.request, terms=replace(parsed.terms, lexemes=["lighthous"]))

    @property
    def request(self) -> RetrievalRequest:
        own = ContextQuery(chat_id=SHARED_CHAT, query=self.text or "?")
        with self.stage.database.tenant(MALLORY) as connection:
            prelude = for_context(connection, own, self.stage.settings).prelude
        return RetrievalRequest(
            prelude=replace(prelude, chat=self.chat),
            text=self.text or "?",
            session_key=self.scope.session_key,
            session_id=self.search_query.session_id,
            filter=self.filter,
            user_id=self.context_query.user_id,
            parameters=PROFILES[self.context_query.profile],
            explain=True,
        )

    @property
    def prepared(self) -> Ask:
        # without the event that it counts from, which is dated by searching: that is walked by itself
        parsed = replace(self.parsed, event=None)
        embedder = DeterministicEmbedder()
        return prepare.prepare_query(self.stage.database, MALLORY, parsed, embedder, Stopwatch())

    @property
    def terms(self) -> SearchTerms:
        return self.prepared.terms

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
