"""Learn facts from sessions: load, extract, save; a language model is called outside any transaction.

A session's facts replace those learned from it before. If a language model gives no usable answer, the rules read the
session, and the model is asked again later.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, Row

from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.model_calls import source_of
from pipeline.enrich.protocols import FactExtractor, People, SummarySource
from pipeline.jobs import runner
from pipeline.memories.entities import entities_of
from pipeline.memories.learned_memories import FactOwner, LearnedFact, revise, unite_alike
from pipeline.people import suppression
from pipeline.store import identities
from pipeline.store.chats import chats, membership
from pipeline.store.chats.chats import Chat
from pipeline.store.chats.membership import Member
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.memories import learned
from pipeline.store.memories.learned import MemoryEvidence
from pipeline.store.messages import message_rows
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows
from schemas.errors import BudgetSpent, ProviderFailed, ProviderRejected
from schemas.facts import RULES, Fact, KnownFact
from schemas.memories import MemoryIn
from schemas.sessions import Message

MAX_MESSAGES = 2000
"""Latest messages of a session that are read."""
KNOWN_TO_MODEL = 40
"""Most current memories about the speakers of a session that a language model is given."""


@dataclass(frozen=True, kw_only=True)
class SessionRead:
    """A session with all that extraction needs."""

    row: Row[Any]
    chat: Chat
    messages: Sequence[Message]
    people: People
    known: Sequence[KnownFact]
    # the bot's id; None: no bot has spoken
    agent_id: str | None


def read_session(connection: Connection, session_id: int) -> SessionRead | None:
    """Read a session to learn facts from; None if it is gone, its chat's memory is off, or retention has pruned it."""
    row = session_rows.find(connection, session_id)
    if row is None or row.id != session_id:
        return None
    chat = chats.get(connection, row.chat_id)
    place = row.chat_id, row.session_key, row.started_at, row.ended_at
    if chat is None or not chat.memory or message_rows.count_in_range(connection, *place) < row.message_count:
        return None
    talk = message_rows.in_range(connection, *place, limit=MAX_MESSAGES)
    names, shared = _named(membership.names(connection, row.chat_id), talk)
    bots = [message for message in talk if message.role == "assistant"]
    speakers = sorted({message.sender_id for message in talk if message.role == "user"})
    return SessionRead(
        row=row,
        chat=chat,
        messages=talk,
        people=People(kind=chat.kind, names=names, shared=shared, agent=bots[-1].speaker if bots else ""),
        known=_known(connection, row, speakers),
        agent_id=(bots[-1].agent_id or bots[-1].sender_id) if bots else None,
    )


def _named(members: Sequence[Member], talk: Sequence[Message]) -> tuple[dict[str, str], frozenset[str]]:
    """Map each name to its sender, and return the names that, ignoring case, several people share."""
    persons = {member.sender_id: member.person for member in members}
    pairs = [(member.sender_name, member.sender_id) for member in members if member.sender_name]
    pairs += [(message.speaker, message.sender_id) for message in talk if message.role == "user"]
    bearers: dict[str, set[str]] = {}
    for name, sender_id in pairs:
        bearers.setdefault(name.casefold(), set()).add(persons.get(sender_id, sender_id))
    shared = frozenset(name for name, _ in pairs if len(bearers[name.casefold()]) > 1)
    return {name: sender_id for name, sender_id in pairs if name not in shared}, shared


def _known(connection: Connection, session: Row[Any], speakers: Sequence[str]) -> list[KnownFact]:
    """Return the latest facts about the speakers from other sessions of the chat, which are safe to repeat in it."""
    ids = [sender_id for speaker in speakers for sender_id in identities.ids_of(connection, speaker)]
    of_session = learned.memories_of_messages(connection, session.id)
    here = [
        row
        for row in learned.of_person(connection, ids)
        if row.learned_in == session.chat_id
        and row.retracted_at is None
        and not row.superseded
        and row.id not in of_session
    ]
    latest = sorted(here, key=lambda row: row.said_at)[-KNOWN_TO_MODEL:]
    return [_fact(row) for row in latest]


def _fact(memory: Row[Any]) -> KnownFact:
    return KnownFact(
        id=memory.id,
        content=memory.content,
        subject=memory.subject,
        attribute=memory.attribute,
        value=memory.value,
        said_at=memory.said_at,
    )


log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How facts are learned."""

    extractor: FactExtractor
    # reads a session if a language model gives no usable answer
    rules: FactExtractor
    facts_per_session: int = 3
    # the lease is renewed for so long before each call to a model
    lease_seconds: float = 120
    # chats whose sessions a language model reads; empty: all
    model_chats: frozenset[str] = frozenset()
    # whether the rules read a session at once when the day's budget is spent
    extracts_when_spent: bool = False


def learner(database: Database, how: Learning) -> runner.Handler:
    """Make the handler of `extract` jobs: each claim is a session, or a memory with a new vector."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        def do(claim: Claim) -> bool | None:
            # one session may supersede the facts of many others, with a log line each
            with structlog.contextvars.bound_contextvars(trace_id=claim.trace_id):
                if claim.key.startswith("memory:"):
                    return _compare(database, tenant_id, claim)
                return _learn(database, tenant_id, claim, how)

        return {"embed"} if runner.do_each(claims, do) else set()

    return handle


def _compare(database: Database, tenant_id: str, claim: Claim) -> bool:
    """Unite a memory with one that says the same in other words; return whether any memory must be embedded."""
    with database.tenant(tenant_id) as connection:
        memory = UUID(claim.key.removeprefix("memory:"))
        united = unite_alike(connection, memory)
        changed = [] if united is None else revise(connection, tenant_id, united[0], again=united[1])
        # a memory that was merged into another is gone, and its job with it
        if united is None or learned.by_id(connection, [memory]):
            jobs.finish(connection, [claim])
    return bool(changed)


def _learn(database: Database, tenant_id: str, claim: Claim, how: Learning) -> bool | None:
    """Learn from one session, and return whether any memory must be embedded; None if there is nothing to do."""
    session_id = int(claim.key.removeprefix("session:"))
    extractor = how.extractor
    with database.tenant(tenant_id) as connection:
        read = read_session(connection, session_id)
        if read is None:
            jobs.finish(connection, [claim])
            return None
    # a model reads a session once, when it is closed
    if read.row.status == "open" or (how.model_chats and read.chat.chat_id not in how.model_chats):
        extractor = how.rules
    if (read.row.facts_revision, read.row.facts_model) == (read.row.revision, extractor.model):
        with database.tenant(tenant_id) as connection:
            jobs.finish(connection, [claim])
        return None
    source = source_of(database, claim, read.chat.chat_id, read.chat, how.lease_seconds)
    failure: Exception | None = None
    started = monotonic()
    try:
        facts = _extract(extractor, read, source, how.facts_per_session)
    except (ProviderFailed, ProviderRejected, BudgetSpent) as error:
        if extractor.model == RULES or (isinstance(error, BudgetSpent) and not how.extracts_when_spent):
            raise
        failure = error
        log.warning("facts_by_rules", key=claim.key, trace_id=claim.trace_id, error=runner.fail(claim, error))
        facts = _extract(how.rules, read, source, how.facts_per_session)
    with database.tenant(tenant_id) as connection:
        if isinstance(extractor, LanguageModelExtractor):
            extractor.forget_answers(connection, source)
        model = how.rules.model if failure else extractor.model
        changed = _save(connection, tenant_id, read, facts, model, monotonic() - started)
        runner.finish_with_fallback(connection, claim, failure)
    return bool(changed)


def _extract(
    extractor: FactExtractor, read: SessionRead, source: SummarySource, max_facts: int
) -> list[Fact]:
    return extractor.extract(
        read.messages,
        people=read.people,
        known=read.known,
        source=source,
        max_facts=max_facts,
    )


def _save(
    connection: Connection,
    tenant_id: str,
    read: SessionRead,
    facts: Sequence[Fact],
    model: str,
    seconds: float,
) -> list[UUID]:
    """Replace a session's facts by these, and return the memories to embed."""
    suppression_list.lock(connection, tenant_id, read.chat.chat_id)
    lost: set[UUID] = set()
    # an open session will say more
    if read.row.status != "open":
        session_rows.set_facts(connection, read.row.id, read.row.revision, model)
        lost = learned.drop_evidence_of_session(connection, read.row.id)
    by_owner: dict[FactOwner, list[LearnedFact]] = defaultdict(list)
    for row in learned.by_id(connection, list(lost)):
        by_owner[FactOwner.of(row)] = []
    by_id = {message.id: message for message in read.messages}
    for fact in facts:
        saying = [by_id[i] for i in fact.message_ids if i in by_id and by_id[i].role == "user"]
        owner = _owner(fact, saying, read) if saying else None
        if owner is None or _is_kept_out(connection, owner, fact, saying):
            continue
        of_another = owner.user_id == saying[0].sender_id and fact.subject not in {"", saying[0].speaker}
        about = "" if of_another else owner.user_id or ""
        language = read.chat.language
        entities = [] if model == RULES else entities_of(fact, about, read.people.names, language)
        if of_another:
            fact = replace(fact, attribute=fact.attribute and f"{fact.subject.casefold()}: {fact.attribute}")
        by_owner[owner].append(
            LearnedFact(
                fact=fact,
                evidence=_evidence(fact, saying, read, model),
                language=language,
                entities=entities,
            )
        )
    changed = []
    for owner in sorted(by_owner, key=lambda owner: (owner.scope, owner.user_id or "", owner.agent_id or "")):
        changed += revise(connection, tenant_id, owner, by_owner[owner], again=lost)
    counters.add(
        connection,
        tenant_id,
        {
            "facts_learned": sum(map(len, by_owner.values())),
            "sessions_read_for_facts": 1,
            "fact_seconds": seconds,
        },
    )
    return changed


def _owner(fact: Fact, saying: Sequence[Message], read: SessionRead) -> FactOwner | None:
    """Return the owner of a fact's memory; None: an agent that has not spoken."""
    if fact.about == "agent":
        return FactOwner(scope="agent", agent_id=read.agent_id) if read.agent_id else None
    if fact.about == "organization" and read.chat.kind != "direct":
        return FactOwner(scope="organization", chat_id=read.chat.chat_id)
    if fact.about == "person" and fact.subject in read.people.names:
        return FactOwner(scope="user", user_id=read.people.names[fact.subject])
    return FactOwner(scope="user", user_id=saying[0].sender_id)


def _is_kept_out(connection: Connection, owner: FactOwner, fact: Fact, saying: Sequence[Message]) -> bool:
    """Tell whether a fact must not be stored, as its person or chat was forgotten or has memory off."""
    memory = MemoryIn(
        scope=owner.scope,
        content=fact.content,
        learned_in=saying[0].chat_id,
        user_id=owner.user_id,
        agent_id=owner.agent_id,
        said_at=saying[0].sent_at,
    )
    return suppression.keeps_out(connection, memory)


def _evidence(fact: Fact, saying: Sequence[Message], read: SessionRead, model: str) -> MemoryEvidence:
    return MemoryEvidence(
        memory_id=None,
        session_id=read.row.id,
        chat_id=read.chat.chat_id,
        said_at=min(message.sent_at for message in saying),
        content=fact.content,
        confidence=fact.confidence,
        learned_by=model,
        messages=[message.id for message in saying],
        senders=[message.sender_id for message in saying],
        times=[message.sent_at for message in saying],
        holds_from=fact.holds_from,
        holds_until=fact.holds_until,
    )
