"""Learn facts from sessions: load, extract, save; a language model is called outside any transaction.

What a session says replaces what it said before. Where a language model gives no usable answer the rules read the
session, and the model is asked again later.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection, Row

from pipeline.enrich.fact_model import LanguageModelExtractor
from pipeline.enrich.protocols import FactExtractor, People, Source
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.memories import entity_graph, likeness
from pipeline.memories.revise import Owner, Said, revise
from pipeline.people import suppression
from pipeline.store import chats, counters, evidence, identities, learned, membership, messages, sessions
from pipeline.store import suppression as suppression_list
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from pipeline.store.evidence import Evidence
from pipeline.text.duplicates import fingerprint
from schemas.errors import BudgetSpent, LeaseLost, ProviderFailed, ProviderRejected
from schemas.facts import RULES, Fact, KnownFact
from schemas.memories import MemoryIn
from schemas.sessions import Message

log = structlog.get_logger(__name__)

MAX_MESSAGES = 2000
"""The latest of a session that are read."""
KNOWN_TO_MODEL = 40
"""Current memories that a language model is told, of all who talk in a session."""
AGAIN_SECONDS = 6 * 3600.0
"""When a model is asked again that gave no usable answer."""
AGAIN_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How facts are learned."""

    extractor: FactExtractor
    # read a session where a language model gives no usable answer
    rules: FactExtractor
    facts_per_session: int = 3
    # the lease begins anew before each call to a model
    lease_seconds: float = 120
    # a language model reads only sessions of these chats; empty: of all
    model_chats: frozenset[str] = frozenset()
    # the rules read a session at once when the day's budget is spent
    extracts_when_spent: bool = False
    # also note who and what closed sessions speak of
    entity_graph: bool = False


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A session as it is read."""

    row: Row[Any]
    chat: Chat
    messages: Sequence[Message]
    people: People
    known: Sequence[KnownFact]
    # the bot's id; none: no bot has spoken
    agent_id: str | None


def learner(database: Database, how: Learning) -> runner.Handler:
    """Make the handler of `extract` jobs: each claim is a session, or a memory that has got its vector."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        follows = False
        for claim in claims:
            try:
                if claim.key.startswith("memory:"):
                    follows |= _compare(database, tenant_id, claim)
                else:
                    follows |= _learn(database, tenant_id, claim, how)
            except LeaseLost:
                # deleted, changed or joined meanwhile, or slower than its lease: no failure
                log.info("extract_overtaken", key=claim.key, trace_id=claim.trace_id)
        return {"embed"} if follows else set()

    return handle


def _compare(database: Database, tenant_id: str, claim: Claim) -> bool:
    """Unite a memory with one that says the same in other words; return whether anything is to be embedded."""
    with database.tenant(tenant_id) as connection:
        united = likeness.unite(connection, UUID(claim.key.removeprefix("memory:")))
        changed = [] if united is None else revise(connection, tenant_id, united[0], again=united[1])
        runner.finish(connection, [claim])
    return bool(changed)


def _learn(database: Database, tenant_id: str, claim: Claim, how: Learning) -> bool:
    """Do one session, and return whether anything is to be embedded."""
    session_id = int(claim.key.removeprefix("session:"))
    extractor = how.extractor
    with database.tenant(tenant_id) as connection:
        read = _read(connection, session_id)
        if read is None:
            runner.finish(connection, [claim])
            return False
    # a model reads a session once, when it is closed
    if read.row.status == "open" or (how.model_chats and read.chat.chat_id not in how.model_chats):
        extractor = how.rules
    if (read.row.facts_revision, read.row.facts_model) == (read.row.revision, extractor.model):
        with database.tenant(tenant_id) as connection:
            runner.finish(connection, [claim])
        return False
    source = Source(
        tenant_id=tenant_id,
        chat_id=read.chat.chat_id,
        language=read.chat.language,
        claim=claim,
        before_call=partial(runner.renew, database, claim, how.lease_seconds),
    )
    failure: Exception | None = None
    started = monotonic()
    try:
        facts = _extract(extractor, read, source, how.facts_per_session)
    except (ProviderFailed, ProviderRejected, BudgetSpent) as error:
        if extractor.model == RULES or (isinstance(error, BudgetSpent) and not how.extracts_when_spent):
            raise
        failure = error
        log.warning("facts_by_rules", key=claim.key, trace_id=claim.trace_id, error=runner.reason_of(error))
        facts = _extract(how.rules, read, source, how.facts_per_session)
    with database.tenant(tenant_id) as connection:
        if isinstance(extractor, LanguageModelExtractor):
            extractor.forget_answers(connection, source)
        model = how.rules.model if failure else extractor.model
        changed = _save(connection, tenant_id, read, facts, model, monotonic() - started)
        if how.entity_graph and read.row.status != "open":
            said = _said(connection, read.row.id)
            place = read.row.id, read.chat.chat_id
            entity_graph.note_session(connection, tenant_id, *place, read.messages, said, read.chat.language)
        if failure is None or claim.attempts >= AGAIN_ATTEMPTS:
            runner.finish(connection, [claim])
        else:
            budget_in = failure.retry_after if isinstance(failure, BudgetSpent) else 0.0
            runner.do_again(connection, claim, delay_seconds=max(AGAIN_SECONDS, budget_in))
    return bool(changed)


def _read(connection: Connection, session_id: int) -> _Read | None:
    """Read a session that facts are to be learned from; None if it is gone, or retention has taken some of it."""
    row = sessions.find(connection, session_id)
    if row is None or row.id != session_id:
        return None
    chat = chats.get(connection, row.chat_id)
    place = row.chat_id, row.session_key, row.started_at, row.ended_at
    if chat is None or not chat.memory or messages.count_in_range(connection, *place) < row.message_count:
        return None
    said = messages.in_range(connection, *place, limit=MAX_MESSAGES)
    speaking = {each.speaker: each.sender_id for each in said if each.role == "user"}
    members = membership.names(connection, row.chat_id)
    shared = Counter(each.sender_name for each in members)
    # of two with the same name nobody is meant but who speaks
    names = {
        each.sender_name: each.sender_id
        for each in members
        if each.sender_name and shared[each.sender_name] == 1
    }
    bots = [each for each in said if each.role == "assistant"]
    speakers = sorted({each.sender_id for each in said if each.role == "user"})
    return _Read(
        row=row,
        chat=chat,
        messages=said,
        people=People(kind=chat.kind, names=names | speaking, agent=bots[-1].speaker if bots else ""),
        known=_known(connection, row, speakers),
        agent_id=(bots[-1].agent_id or bots[-1].sender_id) if bots else None,
    )


def _known(connection: Connection, session: Row[Any], speakers: Sequence[str]) -> list[KnownFact]:
    """Return what other sessions of a chat say of those who speak, the latest: a model may repeat what it is told."""
    ids = [each for speaker in speakers for each in identities.ids_of(connection, speaker)]
    own = evidence.memories_of(connection, session.id)
    here = [
        row
        for row in learned.of_person(connection, ids)
        if row.learned_in == session.chat_id
        and row.retracted_at is None
        and not row.superseded
        and row.id not in own
    ]
    latest = sorted(here, key=lambda row: row.said_at)[-KNOWN_TO_MODEL:]
    return [
        KnownFact(
            id=row.id,
            content=row.content,
            subject=row.subject,
            attribute=row.attribute,
            value=row.value,
            said_at=row.said_at,
        )
        for row in latest
    ]


def _extract(extractor: FactExtractor, read: _Read, source: Source, most: int) -> list[Fact]:
    return extractor.extract(
        read.messages,
        people=read.people,
        known=read.known,
        time_zone=ZoneInfo(read.chat.time_zone),
        source=source,
        most=most,
    )


def _save(
    connection: Connection, tenant_id: str, read: _Read, facts: Sequence[Fact], model: str, seconds: float
) -> list[UUID]:
    """Replace what a session said by these facts, and return the memories that are to be embedded."""
    suppression_list.lock(connection, tenant_id, read.chat.chat_id)
    lost: set[UUID] = set()
    # of an open one there is more to come
    if read.row.status != "open":
        sessions.set_facts(connection, read.row.id, read.row.revision, model)
        lost = evidence.drop_of_session(connection, read.row.id)
    said: dict[Owner, list[Said]] = defaultdict(list)
    for row in learned.by_id(connection, list(lost)):
        said[Owner.of(row)] = []
    by_id = {each.id: each for each in read.messages}
    for fact in facts:
        saying = [by_id[each] for each in fact.message_ids if each in by_id and by_id[each].role == "user"]
        owner = _owner(fact, saying, read) if saying else None
        if owner is None or _is_kept_out(connection, owner, fact, saying):
            continue
        if owner.user_id == saying[0].sender_id and fact.subject not in {"", saying[0].speaker}:
            # of somebody whom the speaker tells of
            fact = replace(fact, attribute=fact.attribute and f"{fact.subject.casefold()}: {fact.attribute}")
        said[owner].append(
            Said(fact=fact, evidence=_evidence(fact, saying, read, model), language=read.chat.language)
        )
    changed = []
    for owner in sorted(said, key=lambda each: (each.scope, each.user_id or "", each.agent_id or "")):
        changed += revise(connection, tenant_id, owner, said[owner], again=lost)
    counters.add(
        connection,
        tenant_id,
        {"facts_learned": len(facts), "sessions_read_for_facts": 1, "fact_seconds": seconds},
    )
    return changed


def _said(connection: Connection, session_id: int) -> list[KnownFact]:
    """Return the memories that a session says, as it words them: other chats may tell more."""
    rows = {
        row.id: row for row in learned.by_id(connection, sorted(evidence.memories_of(connection, session_id)))
    }
    return [
        KnownFact(
            id=row.id,
            content=each.content,
            subject=row.subject,
            attribute=row.attribute,
            value=row.value,
            said_at=each.said_at,
        )
        for each in evidence.of_memories(connection, list(rows))
        if each.session_id == session_id
        and each.memory_id is not None
        and (row := rows[each.memory_id]).retracted_at is None
    ]


def _owner(fact: Fact, saying: Sequence[Message], read: _Read) -> Owner | None:
    """Return whom a memory of a fact is about; None: an agent that has not spoken."""
    if fact.about == "agent":
        return Owner(scope="agent", agent_id=read.agent_id) if read.agent_id else None
    if fact.about == "organization" and read.chat.kind != "direct":
        return Owner(scope="organization", chat_id=read.chat.chat_id)
    if fact.about == "person" and fact.subject in read.people.names:
        return Owner(scope="user", user_id=read.people.names[fact.subject])
    return Owner(scope="user", user_id=saying[0].sender_id)


def _is_kept_out(connection: Connection, owner: Owner, fact: Fact, saying: Sequence[Message]) -> bool:
    """Tell whether a fact must not be stored, as its person or place was forgotten or is not remembered."""
    memory = MemoryIn(
        scope=owner.scope,
        content=fact.content,
        learned_in=saying[0].chat_id,
        user_id=owner.user_id,
        agent_id=owner.agent_id,
        said_at=saying[0].sent_at,
    )
    return suppression.keeps_out(connection, memory, fingerprint(fact.content))


def _evidence(fact: Fact, saying: Sequence[Message], read: _Read, model: str) -> Evidence:
    return Evidence(
        memory_id=None,
        session_id=read.row.id,
        chat_id=read.chat.chat_id,
        said_at=min(each.sent_at for each in saying),
        content=fact.content,
        confidence=fact.confidence,
        learned_by=model,
        messages=[each.id for each in saying],
        senders=[each.sender_id for each in saying],
        times=[each.sent_at for each in saying],
    )
