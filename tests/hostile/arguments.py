"""What a hostile caller puts into each parameter, by the parameter's name: ids of others, nothing at all, SQL.

A parameter that is not known here fails the walk: whoever adds one says what may be put into it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from sqlalchemy import text

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.protocols import Completion
from pipeline.enrich.embedding_text import OwnedText
from pipeline.enrich.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import Source
from pipeline.enrich.summarizers import ExtractiveSummarizer
from pipeline.enrich.summary_policy import Rollout, SummaryPolicy
from pipeline.ingest.import_tally import ChatTally, Tally
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.ingest.reimport import Move
from pipeline.jobs import dead_letters
from pipeline.jobs.runner import Policy
from pipeline.llm.budget import Budget
from pipeline.llm.ledger import EmbeddingCall, Entry
from pipeline.llm.limits import Limits
from pipeline.llm.prices import load_prices
from pipeline.memories.beliefs import Believed, Statement
from pipeline.memories.fact_owners import FactOwner
from pipeline.memories.learn import Learning
from pipeline.memories.learned_memories import Said
from pipeline.operations.backfill_kinds import Current
from pipeline.operations.doctor.facts import TenantData
from pipeline.operations.names import NameInChat, OneByName
from pipeline.operations.retention import retention_of
from pipeline.people.suppression import hash_of
from pipeline.people.visibility import Visible
from pipeline.platforms.records import Record
from pipeline.recall import message_ranking
from pipeline.recall.ask import parse, request
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.ask.temporal_anchor import Mention
from pipeline.recall.find import candidates
from pipeline.recall.find.arms import LIMITS
from pipeline.recall.find.candidate import Statistics
from pipeline.recall.rank.ranked import Ranking
from pipeline.store import backfills, checks, jobs, retention, suppression
from pipeline.store.arms import Arms, Asked
from pipeline.store.entity_graph import EntityRow
from pipeline.store.evidence import Evidence
from pipeline.store.keyword_search import KeywordHits
from pipeline.store.membership import Seen
from pipeline.store.memory_candidates import MemoryHits, MemoryScope
from pipeline.store.memory_changes import Owner as MemoryOwner
from pipeline.store.memory_conditions import MemoryConditions
from pipeline.store.message_cues import MessageText
from pipeline.store.messages import Arrival
from pipeline.store.narrowed_search import Narrowed, SessionsAsked
from pipeline.store.pruned import Sent
from pipeline.store.pruned_senders import PrunedPerson
from pipeline.store.query_log import Served
from pipeline.store.ranges import Begun, Shape, Window
from pipeline.store.rollups import Week
from pipeline.store.vector_search import VectorHits
from pipeline.text.message_cues import MessageCues
from schemas.backfills import Backfill, BackfillRequest
from schemas.context import AnswerIn, Context
from schemas.documents import DocumentFilter, DocumentIn
from schemas.entities import EntityFilter, EntityPlace
from schemas.errors import Permanent
from schemas.facts import Fact
from schemas.forgetting import Forgotten, ForgottenEntry
from schemas.kinds import EMBED, SUMMARIZE
from schemas.memories import MemoryFilter, MemoryQuery
from schemas.memory_changes import MemoryCorrection, MemoryEdit, MemoryPromotion
from schemas.messages import ChatIn
from schemas.search import MoreQuery
from schemas.sessions import Stamp, Summary
from schemas.topics import TopicFilter
from schemas.user_pages import UserFilter
from tests.hostile.caller import FAR_AHEAD, LONG_AGO, THEMES, Caller
from tests.hostile.victims import MALLORY, SHARED_CHAT, VICTIM


class Unknown(Exception):
    """Nothing is known of this parameter."""


def argument(caller: Caller, function: str, name: str, kind: str) -> Any:
    """What the caller puts into a parameter of a function, of this type. Raises `Unknown`."""
    for key in (f"{function}.{name}", f"{name}: {kind}", name):
        if key in BY_NAME:
            return BY_NAME[key](caller)
    for shape, value in BY_KIND.items():
        if kind.removesuffix(" | None") == shape and not name.endswith(("id", "ids", "key", "keys")):
            return value
    raise Unknown(f"{function}: what may be put into {name}: {kind}?")


def guessed(caller: Caller) -> Forgotten:
    """A suppression list for the caller's tenant with entries for what another one has."""
    key = bytes(32)
    named = [hash_of(key, "user", each) for each in caller.names("messages", "sender_id")]
    entries = [ForgottenEntry(hash=each.hex(), kind="user", until=None) for each in named]
    return Forgotten(tenant=MALLORY, key=key.hex(), entries=entries)


def _ranking(caller: Caller) -> Ranking:
    """What the caller's own search finds."""
    assert caller.connection is not None
    return message_ranking.rank_messages(caller.connection, caller.prepared)


def _vector() -> list[float]:
    return DeterministicEmbedder().embed_query("lighthouse")


def _memories(caller: Caller) -> MemoryScope:
    """Every memory that the names may lead to."""
    visible = Visible(everywhere=True, chats=frozenset({caller.chat_id}))
    return MemoryScope(
        scope=caller.scope,
        seen=Seen(visible=visible, asker_ids=caller.names("messages", "sender_id"), alone=True),
        agent_id=caller.maybe("memories", "agent_id"),
        named=dict.fromkeys(caller.names("messages", "sender_id"), "Ann"),
        min_importance=0.0,
        limit=1000,
        counts_hidden=True,
    )


def _asked(caller: Caller) -> Asked:
    """Whatever a question may ask for."""
    return Asked(
        pieces=["lighthouse", caller.text],
        pieces_read=1000,
        times=[(LONG_AGO, FAR_AHEAD)],
        read=1000,
        named=["lighthous", caller.text],
        speakers=caller.names("messages", "sender_name"),
        within=1000,
        newest=True,
        limit=1000,
    )


# By type, where the name says nothing: none of these can name a thing.
BY_KIND: dict[str, Any] = {
    "bool": True,
    "int": 1000,
    "float": 0.0,
    "datetime.datetime": FAR_AHEAD,
    "datetime.timedelta": timedelta(hours=1),
}

_SHAPE = Shape(
    started_at=LONG_AGO, ended_at=LONG_AGO, message_count=1, token_count=1, participants=["Mallory"]
)

# the one space of the stage, as it is stored
_STORED = replace(DeterministicEmbedder().space, id=1)

BY_NAME: dict[str, Callable[[Caller], Any]] = {
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
    "asker: str | None": lambda a: a.maybe("messages", "sender_id"),
    "senders": lambda a: a.names("messages", "sender_id"),
    "senders: Sequence[str] | None": lambda a: None if a.theme.empty else a.names("messages", "sender_id"),
    "user": lambda a: a.name("users", "user_id"),
    "user_id": lambda a: a.name("users", "user_id"),
    "user_id: str | None": lambda a: a.maybe("users", "user_id"),
    "into: str": lambda a: a.chat_id,
    "some": lambda a: a.sessions,
    "sessions: Sequence[schemas.sessions.Session]": lambda a: a.sessions,
    "erasure.erase.redo_sessions.gone": lambda a: [
        SimpleNamespace(id=each, content=a.text) for each in a.ids("messages")
    ],
    "erasure.erase.redo_sessions.edited": lambda a: (
        None if a.theme.empty else SimpleNamespace(id=a.id("messages"), content=a.text)
    ),
    "enrich.embedding_text.load.keys": lambda a: [f"message:{each}" for each in a.ids("messages")],
    "messages: int": lambda _: 100,
    "derived: str": lambda _: "import:",
    "people.identities.unite.other": lambda a: a.name("messages", "sender_id"),
    "people.suppression.admit.former": lambda a: a.names("chats", "chat_id"),
    "old: str": lambda a: a.name("messages", "sender_id"),
    "new: str": lambda a: f"{a.text[:100]}@here",
    "alone: bool": lambda _: True,
    "store.names.split.copy": lambda _: uuid4(),
    "operations.names.tell_apart.one": lambda a: OneByName(
        sender_id=a.name("messages", "sender_id"),
        user_id=None,
        chats=[NameInChat(chat_id=a.chat_id, sender_id=f"{a.text[:100]}@here", messages=1)],
        elsewhere=False,
        memories=1,
    ),
    "ingest.chat_moves.admit.key": lambda _: bytes(32),
    "people.identities.merge.into": lambda a: a.name("users", "user_id"),
    "people.identities.merge.user_id": lambda a: a.name("user_senders", "sender_id"),
    "agent_id: str | None": lambda a: a.maybe("memories", "agent_id"),
    "names": lambda a: a.names("messages", "sender_name"),
    "forgotten": lambda a: guessed(a),
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
        Arrival(each, a.chat_id, 0, "", LONG_AGO, "Mallory", 1, 1, "user", "hi")
        for each in a.ids("arrivals", "message_id")
    ],
    "given: Iterable[tuple[pipeline.store.message_cues.MessageText, str]]": lambda a: [
        (MessageText(each, a.chat_id, "user", "when?"), "english") for each in a.ids("messages")
    ],
    "found: Sequence[tuple[pipeline.store.message_cues.MessageText, pipeline.text.message_cues.MessageCues]]": lambda a: [  # noqa: E501
        (MessageText(each, a.chat_id, "user", ""), MessageCues(1.0, True, True, True))
        for each in a.ids("messages")
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
    "piece: pipeline.text.exact_match.Verbatim": lambda a: a.verbatim,
    "exact": lambda a: [] if a.theme.empty else [a.verbatim],
    "parts": lambda a: [] if a.theme.empty else [a.text],
    "reranker": lambda _: None,
    "gateway": lambda _: None,
    "mention": lambda a: Mention(relation="since", events=(a.text,), text=a.text, rest=""),
    "described": lambda a: [(parse.read(a.text, [], LONG_AGO, FAR_AHEAD, "english"), a.terms)],
    "zone": lambda _: UTC,
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
    "after: uuid.UUID | None": lambda a: UUID(str(a.known.one("memories", "id"))) if a.theme.empty else None,
    "after: str": lambda a: a.text,
    "after: str | None": lambda a: a.maybe("query_log", "context_id"),
    "after: int | None": lambda _: None,
    "after: str | int | None": lambda _: None,
    "after: int": lambda _: 0,
    # entities and topics
    "entity": lambda a: a.name("memory_entities", "entity"),
    "named: Sequence[pipeline.store.entity_graph.EntityRow]": lambda a: [_entity_row(a)],
    "store.entity_graph.listing.name": lambda a: (
        None if a.theme.empty else a.name("memory_entities", "alias")
    ),
    "store.entity_graph.reached.names": lambda a: a.names("memory_entities", "alias"),
    **{f"store.entity_graph.reached.{most}": lambda _: 8 for most in ("named", "near", "links")},
    "store.entity_graph.copy.into": lambda a: UUID(str(a.known.one("memories", "id"))),
    "memories.entities.show.name": lambda a: a.name("messages", "sender_id"),
    "place": lambda a: EntityPlace(chat_id=None if a.theme.empty else SHARED_CHAT),
    "memories.entities.listing.wanted": lambda a: EntityFilter(
        chat_id=None if a.theme.empty else SHARED_CHAT
    ),
    "operations.topics.of_chat.wanted": lambda _: TopicFilter(),
    "linked": lambda a: {str(each): a.text for each in a.ids("memories")},
    "store.memory_candidates.believed.ids": lambda a: (
        None if a.theme.empty else [str(each) for each in a.ids("memories")]
    ),
    "week": lambda a: Week(a.chat_id, LONG_AGO.date()),
    "until": lambda _: FAR_AHEAD,
    "store.rollups.save.read": lambda a: [
        SimpleNamespace(**row) for row in a.known.rows["conversation_sessions"]
    ],
    "source_hash": lambda _: b"hash",
    "model_chats": lambda a: frozenset(a.names("chats", "chat_id")),
    "store.rollups.drop_of_chat.into": lambda a: None if a.theme.empty else a.chat_id,
    "store.rollups.hold.ids": lambda a: a.ids("rollups"),
    "store.rollups.of_times.times": lambda _: [(LONG_AGO.date(), FAR_AHEAD.date())],
    "enrich.weeks.enqueue.zone": lambda _: ZoneInfo("UTC"),
    "store.topics.by_period.by": lambda _: "week",
    "store.topics.by_period.zone": lambda _: "UTC",
    # sessions
    "session_id": lambda a: a.id("conversation_sessions"),
    "session_ids": lambda a: a.ids("conversation_sessions"),
    "into": lambda a: {each: a.id("conversation_sessions") for each in a.ids("conversation_sessions")},
    "session": lambda a: a.sessions[0],
    "sent": lambda a: [Sent(each, "", LONG_AGO) for each in a.names("messages", "external_id")],
    "age": lambda _: timedelta(days=1),
    "per_chat": lambda _: 1,
    "store.summary_memories.put.session": lambda a: SimpleNamespace(
        id=a.id("conversation_sessions"), chat_id=a.chat_id
    ),
    "named_messages": lambda _: 12,
    "session_key": lambda a: a.name("session_closes", "session_key"),
    "session_key: str | None": lambda a: a.maybe("session_closes", "session_key"),
    "closes": lambda a: [(a.name("session_closes", "session_key"), LONG_AGO)],
    "places: Collection[tuple[str, str]]": lambda a: [(a.chat_id, a.name("session_closes", "session_key"))],
    "places": lambda a: [(a.name("session_closes", "session_key"), datetime(2026, 3, 2, 18, 5, tzinfo=UTC))],
    "windows": lambda a: [
        Window(
            chat_id=a.chat_id,
            session_key=a.name("session_closes", "session_key"),
            start=LONG_AGO,
            end=FAR_AHEAD,
        )
    ],
    "begun": lambda a: [
        Begun(
            chat_id=a.chat_id,
            session_key=a.name("session_closes", "session_key"),
            language="english",
            shape=_SHAPE,
        )
    ],
    "grown": lambda a: dict.fromkeys(a.ids("conversation_sessions"), _SHAPE),
    "cut": lambda a: dict.fromkeys(a.ids("conversation_sessions"), _SHAPE),
    "placed": lambda a: dict.fromkeys(a.names("chats", "chat_id"), (1, 1)),
    "traces": lambda a: dict.fromkeys(a.names("chats", "chat_id"), f"{VICTIM}-request"),
    "remembered": lambda a: a.names("chats", "chat_id"),
    "only": lambda a: None if a.theme.empty else a.known.one("arrivals", "message_id"),
    "after: schemas.sessions.Stamp | None": lambda a: (
        None if a.theme.empty else Stamp(LONG_AGO, 0, -1, a.known.one("messages", "id"))
    ),
    "read": lambda a: SimpleNamespace(**next(iter(a.known.rows["conversation_sessions"]))),
    "summary": lambda a: Summary(summary=(a.text or "?")[:4000]),
    "revision": lambda a: a.known.one("conversation_sessions", "revision"),
    "status": lambda a: "failed" if a.theme.text is None else a.theme.text,
    "status: str | None": lambda a: None if a.theme.empty else a.theme.text,
    # documents
    "document_id": lambda a: a.name("memories", "document_id"),
    "document": lambda a: DocumentIn(
        document_id=a.name("memories", "document_id") or "none", content=a.text or "?"
    ),
    # imports
    "moved": lambda a: [(each, a.text[:200] or "?", 0, LONG_AGO) for each in a.ids("messages")],
    "of: Mapping[str, pipeline.store.chats.Chat]": lambda a: {a.chat_id: a.chat},
    "moves": lambda a: [Move(id=each, message=a.message) for each in a.ids("messages")],
    "records": lambda a: [
        Record(
            chat_id=a.chat_id,
            message=a.message,
            where="line 1",
            by_clock=True,
            aliases=tuple(a.names("messages", "external_id")),
        )
    ],
    "ingest.reimport.find_renamed.names": lambda _: frozenset(),
    "tally": lambda a: Tally(chats={each: ChatTally(chat_id=each) for each in a.names("chats", "chat_id")}),
    "memories.documents.keep.chunks": lambda a: [a.text or "?"],
    "store.memories.put_chunks.chunks": lambda a: [
        (uuid4(), a.known.one("memories", "content_hash"), a.text or "?")
    ],
    "store.memories.drop_document.keep": lambda _: [],
    "given: schemas.documents.DocumentFilter": lambda _: DocumentFilter(),
    "importance": lambda _: 1.0,
    # memories and vectors
    "memory": lambda a: a.memory,
    "identity": lambda a: UUID(str(a.known.one("memories", "id"))) if a.theme.text is None else uuid4(),
    "content_hash": lambda a: a.known.one("memories", "content_hash"),
    "owner": lambda a: MemoryOwner("user", None, a.name("memories", "user_id"), None),
    "wanted: schemas.memory_changes.MemoryEdit": lambda a: MemoryEdit(content=a.text or "?"),
    "wanted: schemas.memory_changes.MemoryPromotion": lambda _: MemoryPromotion(scope="organization"),
    "wanted: schemas.memory_changes.MemoryCorrection": lambda a: MemoryCorrection(content=a.text or None),
    "session_lifetime": lambda _: timedelta(minutes=60),
    "own_documents": lambda _: True,
    "person: pipeline.store.pruned_senders.PrunedPerson": lambda a: PrunedPerson(
        a.names("messages", "sender_id"), a.names("messages", "sender_name"), a.names("chats", "chat_id")
    ),
    "users: Sequence[str]": lambda a: a.names("users", "user_id"),
    "lives_for": lambda _: timedelta(minutes=60),
    "metadata": lambda a: {a.text[:100]: a.text},
    "expires_at": lambda _: FAR_AHEAD,
    "also_in": lambda a: a.names("chats", "chat_id"),
    "old": lambda a: UUID(str(a.known.one("memories", "id"))),
    "new": lambda _: uuid4(),
    "at": lambda _: FAR_AHEAD,
    "hashes": lambda a: (
        [] if a.theme.empty else [bytes(each) for each in a.known.all("suppression_list", "hash")]
    ),
    "store.vectors.known_hashes.hashes": lambda a: [
        bytes(each) for each in a.known.all("message_vectors", "content_hash")
    ],
    "entry": lambda a: bytes(a.known.one("suppression_list", "hash")),
    "space": lambda a: a.space,
    "embedded: tuple[schemas.vectors.EmbeddingSpace, list[float]] | None": lambda a: (
        None if a.theme.empty else (a.space, _vector())
    ),
    "space: schemas.vectors.EmbeddingSpace | None": lambda a: None if a.theme.empty else a.space,
    "space_id": lambda _: 1,
    "size": lambda _: 256,
    "embedding": lambda a: str(_vector()) if a.theme.text is None else a.theme.text,
    "vector": lambda a: None if a.theme.empty else _vector(),
    "query: list[float]": lambda _: _vector(),
    "query: list[float] | None": lambda a: None if a.theme.empty else _vector(),
    "rows: Sequence[tuple[str, bytes, Sequence[list[float]] | None]]": lambda a: [
        (str(each), b"hash", [_vector()]) for each in a.ids("messages")
    ],
    "store.vectors.put.kind": lambda _: "message",
    "store.vectors.current.kind": lambda _: "session",
    "store.vectors.current.texts": lambda a: {str(each): b"hash" for each in a.ids("conversation_sessions")},
    "store.spaces.delete_vectors.kind": lambda _: "message",
    "store.vectors.is_indexed.kind": lambda _: "memory",
    "store.vector_search.everywhere.kind": lambda _: "memory",
    "store.checks.most_searched.kind": lambda _: "memory",
    "operations.spaces.find.name": lambda a: a.text,
    "pair": lambda _: (_STORED, _STORED),
    **{
        f"operations.spaces.{function}.space": lambda _: _STORED
        for function in ("missing", "require_complete", "delete_vectors")
    },
    "embedders": lambda _: SpaceEmbedders(lambda _space: DeterministicEmbedder()),
    **{
        f"{function}.embedding": lambda _: DeterministicEmbedder()
        for function in (
            "memories.documents.model",
            "recall.prepare.prepare_query",
            "enrich.embed.embedder",
        )
    },
    "store.jobs.drop.kinds": lambda _: [EMBED, SUMMARIZE],
    "given: schemas.user_pages.UserFilter": lambda a: UserFilter(
        chat_id=None if a.theme.empty else a.chat_id
    ),
    "given: schemas.memories.MemoryFilter": lambda a: MemoryFilter(
        user_id=a.maybe("users", "user_id") or None, chat_id=None if a.theme.empty else a.chat_id
    ),
    "query: schemas.memories.MemoryQuery": lambda a: MemoryQuery(
        query=a.text or "?",
        user_id=a.maybe("users", "user_id") or None,
        chat_id=None if a.theme.empty else SHARED_CHAT,
        metadata=None if a.theme.text is None else {"note": a.theme.text},
    ),
    "which: pipeline.store.memory_conditions.MemoryConditions": lambda a: MemoryConditions(
        user_ids=None if a.theme.empty else a.names("users", "user_id"),
        source=None if a.theme.text is None else a.theme.text,
        metadata=None if a.theme.text is None else {"note": a.theme.text},
    ),
    "seen: pipeline.store.membership.Seen | None": lambda a: (
        None
        if a.theme.empty
        else Seen(
            visible=Visible(everywhere=True, chats=frozenset({a.chat_id})),
            asker_ids=a.names("messages", "sender_id"),
            alone=True,
        )
    ),
    # learned memories: their statements name them by evidence and supersessions
    "how": lambda _: Learning(extractor=RequestExtractor(), rules=RequestExtractor()),
    "again": lambda a: a.ids("memories"),
    "owner: pipeline.memories.fact_owners.FactOwner": lambda a: _owner(a),
    "owner: str": lambda a: a.name("memory_evidence", "sender_id"),
    "said": lambda a: [_said(a)],
    "memories.learned_memories.write.found": lambda a: [
        Believed(memory_id=None, statements=(_statement(a),)),
        Believed(memory_id=a.known.one("memories", "id"), statements=(_statement(a),)),
    ],
    "memories.learned_memories.write.rows": lambda _: {},
    "memories.learned_memories.write.new": lambda a: {_statement(a): _said(a)},
    "memories.learned_memories.write.taken": lambda _: {},
    "evidence": lambda a: _evidence(a),
    "losers": lambda a: a.ids("memory_evidence", "session_id"),
    "survivors": lambda a: a.ids("memory_evidence", "session_id")[::-1],
    "among": lambda a: a.ids("memories"),
    "edges": lambda a: [
        (each["superseded_by"], each["memory_id"]) for each in a.known.rows["memory_supersessions"]
    ],
    "ids: Sequence[uuid.UUID]": lambda a: a.ids("memories"),
    "store.learned.learned.ids": lambda a: [str(each) for each in a.ids("memories")],
    "store.learned.of_person.ids": lambda a: a.names("memory_evidence", "sender_id"),
    "agent_id: str": lambda a: a.name("memories", "agent_id"),
    "attribute": lambda a: a.text,
    "store.evidence.move.moves": lambda a: [
        (each["memory_id"], each["session_id"], other["memory_id"])
        for each in a.known.rows["memory_evidence"]
        for other in a.known.rows["memory_evidence"]
    ],
    **{
        f"{function}.{name}": lambda a: a.known.one("memory_supersessions", "memory_id")
        for function, name in (
            ("memories.likeness.unite", "memory_id"),
            ("store.evidence.put", "memory_id"),
            *((f"store.learned.{each}", "memory_id") for each in ("adopt", "nearest", "raise_importance")),
            ("store.learned.copy", "memory_id"),
        )
    },
    **{
        f"{function}.session_id": lambda a: a.known.one("memory_evidence", "session_id")
        for function in ("store.evidence.drop_of_session", "store.evidence.memories_of")
    },
    **{
        f"{function}.message_ids": lambda a: a.ids("memory_evidence", "message_id")
        for function in ("store.evidence.take", "erasure.unlearn.unlearn")
    },
    "store.learned.copy.into": lambda _: uuid4(),
    "store.learned.insert.values": lambda a: (
        _learned(a)
        | {
            "id": uuid4(),
            "scope": "user",
            "type": "fact",
            "user_id": a.name("memory_evidence", "sender_id"),
            "agent_id": None,
            "importance": 5.0,
            "subject": a.text,
            "attribute": a.text,
            "value": a.text,
            "learned_by": "rules-v1",
            "holds_from": None,
            "holds_until": None,
            "language": "english",
        }
    ),
    "store.learned.refresh.values": lambda a: (
        _learned(a)
        | {"id": a.known.one("memory_supersessions", "memory_id"), "also_in": a.names("chats", "chat_id")}
    ),
    "operations.costs.estimate_extraction.measured": lambda a: (a.text, a.text),
    "users": lambda a: None if a.theme.empty else a.names("users", "user_id"),
    "visible": lambda a: Visible(everywhere=True, chats=frozenset({a.chat_id})),
    "seen: pipeline.store.membership.Seen": lambda a: Seen(
        visible=Visible(everywhere=True, chats=frozenset({a.chat_id})),
        asker_ids=a.names("messages", "sender_id"),
    ),
    "store.chats.set_tenant_setting.name": lambda a: a.text,
    "value": lambda a: a.text,
    "claim": lambda a: a.claims[0],
    "ingest.poison.place_each.put": lambda _: lambda _connection, _arrival: set(),
    # refused payloads
    **{
        f"store.quarantine.{function}.key": lambda a: a.name("refused_payloads", "key")
        for function in ("keep_payload", "read_payload", "take_payload")
    },
    "payload: str": lambda a: a.text,
    "store.quarantine.forget_payloads.names": lambda a: [a.names("messages", "sender_id")],
    "suspect": lambda a: f"message:{a.known.one('arrivals', 'message_id')}",
    "suspects": lambda a: [f"message:{each}" for each in a.ids("arrivals", "message_id")],
    "jobs.dead_letters.replay.enqueue": lambda _: lambda _payload, _trace_id: None,
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
    "recall.query_log.report.given": lambda a: AnswerIn(answer=a.text, used=[a.text[:100]], remember=True),
    "store.query_log.record.row": lambda a: next(iter(a.known.rows["query_log"])) | {"tenant": VICTIM},
    "store.query_log.record.logs": lambda _: True,
    "store.query_log.record.served": lambda a: Served(
        remembered=True,
        key=suppression.key(a.connection),
        place=[b"h" * 32],
        asker=[b"h" * 32],
        shown_memories=[str(each) for each in a.ids("memories")],
        counted={"contexts": 1.0},
    ),
    "recall.find.arms.search_queries.known": lambda _: None,
    "known: pipeline.store.arms.Arms": lambda _: Arms(
        by_word=KeywordHits(), by_vector=VectorHits(), inside=[]
    ),
    "memories: pipeline.store.memory_candidates.MemoryScope | None": lambda a: (
        None if a.theme.empty else _memories(a)
    ),
    "recall.find.memory_search.find_memories.which": _memories,
    "recall.find.memory_search.find_memories.known": lambda a: [
        MemoryHits() for _ in a.prepared.terms.queries
    ],
    "store.arms.search.asked": _asked,
    "store.memory_candidates.believed.which": _memories,
    "store.memory_candidates.believed.known": lambda _: None,
    "queries: Sequence[tuple[schemas.vectors.EmbeddingSpace, list[float]] | None]": lambda a: [
        None if a.theme.empty else (a.space, _vector())
    ],
    "queries: Sequence[str]": lambda a: [a.text],
    "prelude": lambda a: a.prepared.request.prelude,
    "of_key": lambda a: a.maybe("session_closes", "session_key"),
    "pieces: Sequence[Sequence[str]]": lambda a: [["lighthouse"], [a.text]],
    "store.arms.search.sessions": lambda _: LIMITS[0].sessions,
    "answer": lambda a: a.text,
    "used": lambda a: None if a.theme.empty else [a.text],
    "memory_id": lambda a: a.known.one("memories", "id"),
    "memory_ids": lambda a: [str(each) for each in a.ids("memories")],
    "store.query_log.hold.messages": lambda a: a.ids("messages"),
    "gone": lambda a: [f"message:{each}" for each in a.ids("messages")],
    "texts": lambda a: [] if a.theme.empty else [a.text],
    "user_ids": lambda a: a.names("query_log", "user_id"),
    "named": lambda a: [("chat", a.chat_id), ("user", a.name("messages", "sender_id"))],
    # language models
    "entry: pipeline.llm.ledger.Entry": lambda a: Entry(
        tenant_id=a.tenant,
        chat_id=a.chat_id,
        purpose=a.text,
        claim=a.claims[0],
        model=a.name("llm_answers", "model"),
        provider=a.text,
        prompt_hash=bytes(a.known.one("llm_answers", "prompt_hash")),
        input_tokens=1,
        output_tokens=1,
        cost=None,
        id=a.known.one("llm_calls", "id"),
    ),
    "prompt_hash": lambda a: bytes(a.known.one("llm_answers", "prompt_hash")),
    "call_id": lambda a: a.known.one("llm_calls", "id"),
    "store.llm_answers.find.model": lambda a: a.name("llm_answers", "model"),
    "purpose": lambda a: a.text,
    "provider": lambda a: a.text,
    "outcome": lambda a: "answered" if a.theme.text is None else a.theme.text,
    "completion": lambda a: Completion(text=a.text or "?"),
    "prices": lambda _: load_prices(),
    "llm.ledger.note_embedding.call": lambda a: EmbeddingCall(
        model=a.text, provider=a.text, tokens=3, seconds=0.1, answered=True
    ),
    "enrich.embed_spaces.begin.client": lambda _: DeterministicEmbedder(),
    "enrich.embed_spaces.begin.away": lambda _: None,
    "enrich.embed_spaces.begin.texts": lambda a: [
        OwnedText(owner=owner, id=each, text=a.text or "?")
        for owner, table in (
            ("message", "messages"),
            ("session", "conversation_sessions"),
            ("memory", "memories"),
        )
        for each in a.ids(table)
    ],
    "budget": lambda _: Budget(tokens=1),
    "limits": lambda _: Limits(),
    "limits: pipeline.ingest.pruned.MessageLimits": lambda _: MessageLimits(
        age=timedelta(days=1), per_chat=1
    ),
    "by": lambda _: "model",
    "counted": lambda _: backfills.Tokens(rows=1, tokens=1),
    # work, backfills, receipts
    "kind": lambda a: "embed" if a.theme.text is None else a.theme.text,
    "kind: str | None": lambda a: a.maybe("jobs", "kind"),
    "people.suppression.is_suppressed.kind": lambda _: "message",
    "key": lambda a: a.name("jobs", "key"),
    "people.suppression.admit.key": lambda _: bytes(32),
    "lane": lambda a: a.chat_id,
    "new_jobs": lambda a: [
        jobs.NewJob(kind="ingest", key=key, lane=a.chat_id, priority=jobs.LATER)
        for key in a.names("jobs", "key")
    ],
    "closing": lambda _: True,
    "key: str | None": lambda a: a.maybe("jobs", "key"),
    "keys": lambda a: a.names("jobs", "key"),
    "tokens: Sequence[int]": lambda a: [1 for _ in a.names("jobs", "key")],
    "rows: Sequence[tuple[str, str, int]]": lambda a: [
        (VICTIM, row["key"], row["token"] or 1) for row in a.known.rows["jobs"]
    ],
    "state": lambda a: "cancelled" if a.theme.text is None else a.theme.text,
    "state: str | None": lambda a: None if a.theme.empty else a.theme.text,
    "backfill_id": lambda a: a.id("backfills"),
    "receipt_id": lambda a: a.id("forget_receipts"),
    "cursor": lambda a: {"position": a.text},
    "counts: Mapping[str, float]": lambda _: {"context_seconds": 0.1},
    "counts: Mapping[str, int]": lambda a: {a.text: 1},
    "values": lambda a: {a.text: 1.0},
    "subject: Mapping[str, typing.Any]": lambda a: {"chat_id": a.text},
    "subject: schemas.forgetting.Subject": lambda a: a.subjects(),
    "subject_hash": lambda a: bytes(a.known.one("forget_receipts", "subject_hash")),
    "claims": lambda a: a.claims,
    "items": lambda a: a.items,
    "item": lambda a: a.items[0],
    "wanted": lambda a: dead_letters.JobFilter(error=None if a.theme.empty else a.theme.text),
    "request": lambda a: BackfillRequest(
        kind="embed", chat_id=None if a.theme.empty else a.chat_id, missing_only=False
    ),
    # made of constants of their modules, never of what comes in
    "source": lambda a: list(backfills.SOURCES)[THEMES.index(a.theme) % len(backfills.SOURCES)],
    "store.backfills.window.given": lambda a: _window_given(a),
    "store.backfills.count.given": lambda a: _window_given(a),
    "store.backfills.count_tokens.given": lambda a: _window_given(a),
    "store.backfills.outstanding.given": lambda a: _window_given(a),
    "store.backfills.unfinished.given": lambda a: _window_given(a),
    "backfill: schemas.backfills.Backfill": lambda a: Backfill(
        id=a.id("backfills"),
        request=BackfillRequest(kind="embed"),
        state="running",
        cursor=None,
        total=1,
        seen=0,
        raised=0,
        error=None,
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
        finished_at=None,
    ),
    "upto": lambda a: _position(a),
    "raised_until": lambda _: FAR_AHEAD,
    "missing_only": lambda _: False,
    "after: pipeline.store.claims.Turn | None": lambda _: None,
    "doomed": lambda _: retention.MESSAGES_BY_AGE,
    "given: object": lambda _: {"before": FAR_AHEAD, "batch": 1000},
    "table": lambda _: "messages",
    "statement": lambda a: checks.missing_jobs(a.connection, summaries=True)["embed"] if a.connection else "",
    # what comes from the settings
    "settings": lambda a: a.stage.settings,
    "rules": lambda a: SessionPolicy.of(a.stage.settings),
    "keep": lambda a: retention_of(a.stage.settings.model_copy(update={"retention_days": 1})),
    "policy: pipeline.ingest.policy.SessionPolicy": lambda a: SessionPolicy.of(a.stage.settings),
    "policy: pipeline.enrich.summary_policy.SummaryPolicy": lambda _: SummaryPolicy(
        min_messages=4, version=1
    ),
    "policy": lambda _: Policy(batch=100, lease_seconds=60, max_attempts=3),
    "current": lambda a: Current(rules=SessionPolicy.of(a.stage.settings), summary_version=1, min_messages=4),
    "embedder: schemas.vectors.EmbeddingSpace": lambda _: DeterministicEmbedder().space,
    "embedder": lambda _: DeterministicEmbedder(),
    "client: pipeline.clients.protocols.Embedder": lambda _: DeterministicEmbedder(),
    "client: pipeline.enrich.protocols.Summarizer": lambda _: ExtractiveSummarizer(),
    "client: pipeline.enrich.language_model.LanguageModelSummarizer | None": lambda _: None,
    "rollout": lambda _: Rollout(),
    # a session of the victim's, as if it had no summary
    "row: sqlalchemy.engine.row.Row[typing.Any]": lambda a: SimpleNamespace(
        **next(iter(a.known.rows["conversation_sessions"])) | {"summary_model": None, "summary_text": None}
    ),
    "source: pipeline.enrich.protocols.Source": lambda a: Source(tenant_id=a.tenant, chat_id=a.chat_id),
    "time_zone: datetime.tzinfo": lambda _: UTC,
    # queries
    "query: schemas.payloads.ContextQuery": lambda a: a.context_query,
    "query: schemas.search.SearchQuery": lambda a: a.search_query,
    "query: schemas.search.MoreQuery": lambda a: MoreQuery(
        chat_id=a.chat_id, session_id=a.id("conversation_sessions")
    ),
    "search: schemas.search.SearchQuery": lambda a: a.search_query,
    "request: pipeline.recall.ask.request.RetrievalRequest": lambda a: a.request,
    "parsed: pipeline.recall.ask.ask.ParsedQuestion": lambda a: a.parsed,
    "query: pipeline.recall.ask.ask.Ask": lambda a: a.prepared,
    "prepared": lambda a: a.prepared,
    "terms": lambda a: a.terms,
    "stopwatch": lambda _: request.Stopwatch(),
    "ranking: pipeline.recall.rank.ranked.Ranking": _ranking,
    "parameters: pipeline.recall.ask.profiles.Parameters": lambda _: PROFILES["contextual"],
    "statistics": lambda _: Statistics(messages=9, mean_length=5.0, document_frequency={"lighthous": 1}),
    "scored": lambda a: [(each, 1.0, {}) for each in a.ids("conversation_sessions")],
    "found: pipeline.recall.find.candidates.CandidateSet": lambda a: candidates.retrieve(
        a.connection, a.request, a.terms
    ),
    "found: Sequence[pipeline.store.narrowed_search.Narrowed]": lambda a: [
        Narrowed(messages=a.ids("messages"))
    ],
    "asked: pipeline.store.narrowed_search.SessionsAsked": lambda a: SessionsAsked(
        session_id=a.id("conversation_sessions"), most=20, looked_into=3, messages=12
    ),
    "min_fit": lambda _: 0.0,
    "retrieved": lambda a: candidates.retrieve(a.connection, a.request, a.terms),
    "hits": lambda a: _ranking(a).hits,
    "sessions: int": lambda _: 3,
    "scope": lambda a: a.scope,
    "which": lambda a: a.filter,
    "parsed": lambda a: [
        ChatIn(chat_id=a.chat_id),
        Record(chat_id=a.chat_id, message=a.message, where="line 1"),
    ],
    "sample": lambda a: {MALLORY: a.names("chats", "chat_id")},
    "tenant: pipeline.operations.doctor.facts.TenantData": lambda a: TenantData(
        tenant_id=MALLORY,
        differing=a.names("chats", "chat_id"),
        drifted=a.names("chats", "chat_id"),
        without_job={"embed": 1, "summarize": 1, "ingest": 1},
        orphans=1,
    ),
}


def _entity_row(a: Caller) -> EntityRow:
    return EntityRow(a.name("messages", "sender_id"), a.text, a.text, a.text, a.text, "unknown", a.text)


def _owner(a: Caller) -> FactOwner:
    """Each kind in turn, of the victim's names."""
    owners = (
        FactOwner(scope="user", user_id=a.name("memory_evidence", "sender_id")),
        FactOwner(scope="agent", agent_id=a.name("memories", "agent_id")),
        FactOwner(scope="organization", chat_id=a.chat_id),
    )
    return owners[THEMES.index(a.theme) % len(owners)]


def _said(a: Caller) -> Said:
    return Said(fact=_fact(a), evidence=_evidence(a), language="english")


def _statement(a: Caller) -> Statement:
    """A session of the victim says what a memory of theirs says."""
    evidence = _evidence(a)
    return Statement(
        memory_id=a.known.one("memories", "id"),
        session_id=evidence.session_id,
        chat_id=evidence.chat_id,
        said_at=evidence.said_at,
        content=evidence.content,
    )


def _fact(a: Caller) -> Fact:
    return Fact(
        content=a.text,
        category="fact",
        about="speaker",
        subject=a.text,
        attribute=a.text,
        value=a.text,
        confidence=0.9,
        importance=5,
        message_ids=tuple(a.ids("memory_evidence", "message_id")),
        replaces=tuple(a.ids("memories")),
    )


def _evidence(a: Caller) -> Evidence:
    ids = a.ids("memory_evidence", "message_id")
    return Evidence(
        memory_id=None,
        session_id=a.known.one("memory_evidence", "session_id"),
        chat_id=a.chat_id,
        said_at=FAR_AHEAD,
        content=a.text,
        confidence=0.9,
        learned_by="rules-v1",
        messages=ids,
        senders=[a.name("memory_evidence", "sender_id")] * len(ids),
        times=[FAR_AHEAD] * len(ids),
    )


def _learned(a: Caller) -> dict[str, Any]:
    """What a learned memory has from its evidence."""
    return {
        "content": a.text,
        "hash": a.known.one("memories", "content_hash"),
        "confidence": 0.9,
        "said_at": FAR_AHEAD,
        "learned_in": a.chat_id,
    }


def _position(a: Caller) -> str:
    """The end of the source that `source` says, as a backfill that has come there notes it."""
    return {"sessionize": "~", "answers": "~", "embed_memories": str(UUID(int=2**128 - 1))}.get(
        BY_NAME["source"](a), str(2**62)
    )


def _window_given(a: Caller) -> dict[str, Any]:
    """All the parameters that the sources of backfills know."""
    every = {
        "chat": None if a.theme.empty else a.chat_id,
        "since": LONG_AGO,
        "until": FAR_AHEAD,
        "spaces": [1],
        "version": 1,
        "min_messages": 1,
    }
    source = backfills.SOURCES[BY_NAME["source"](a)]
    return {name: value for name, value in every.items() if name in text(source).compile().params}
