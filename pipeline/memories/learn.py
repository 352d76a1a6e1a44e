"""Learn facts from sessions: load, extract, save; a language model is called outside any transaction.

A session's facts replace those learned from it before. If a language model gives no usable answer, the rules read the
session, and the model is asked again later.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection

from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.protocols import FactExtractor, Source
from pipeline.jobs import runner
from pipeline.memories import likeness, session_facts
from pipeline.memories.belief_revision import revise
from pipeline.memories.fact_entities import entities_of
from pipeline.memories.fact_owners import FactOwner
from pipeline.memories.learned_memories import LearnedFact
from pipeline.memories.session_facts import SessionRead
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.memories import evidence, learned
from pipeline.store.memories.evidence import Evidence
from pipeline.store.operations import counters
from pipeline.store.sessions import sessions
from pipeline.text.duplicates import fingerprint
from schemas.errors import BudgetSpent, LeaseLost, ProviderFailed, ProviderRejected
from schemas.memory.facts import RULES, Fact
from schemas.memory.memories import MemoryIn
from schemas.sessions import Message

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
        follows = False
        for claim in claims:
            try:
                # one session may supersede the facts of many others, with a log line each
                with structlog.contextvars.bound_contextvars(trace_id=claim.trace_id):
                    if claim.key.startswith("memory:"):
                        follows |= _compare(database, tenant_id, claim)
                    else:
                        follows |= _learn(database, tenant_id, claim, how)
            except LeaseLost:
                # deleted, changed or joined meanwhile, or its lease expired: no failure
                log.info("extract_overtaken", key=claim.key, trace_id=claim.trace_id)
                runner.pass_over(claim)
        return {"embed"} if follows else set()

    return handle


def _compare(database: Database, tenant_id: str, claim: Claim) -> bool:
    """Unite a memory with one that says the same in other words; return whether any memory must be embedded."""
    with database.tenant(tenant_id) as connection:
        memory = UUID(claim.key.removeprefix("memory:"))
        united = likeness.unite(connection, memory)
        changed = [] if united is None else revise(connection, tenant_id, united[0], again=united[1])
        # a memory that was merged into another is gone, and its job with it
        if united is None or learned.by_id(connection, [memory]):
            jobs.finish(connection, [claim])
    return bool(changed)


def _learn(database: Database, tenant_id: str, claim: Claim, how: Learning) -> bool:
    """Learn from one session, and return whether any memory must be embedded."""
    session_id = int(claim.key.removeprefix("session:"))
    extractor = how.extractor
    with database.tenant(tenant_id) as connection:
        read = session_facts.read(connection, session_id)
        if read is None:
            jobs.finish(connection, [claim])
            runner.pass_over(claim)
            return False
    # a model reads a session once, when it is closed
    if read.row.status == "open" or (how.model_chats and read.chat.chat_id not in how.model_chats):
        extractor = how.rules
    if (read.row.facts_revision, read.row.facts_model) == (read.row.revision, extractor.model):
        with database.tenant(tenant_id) as connection:
            jobs.finish(connection, [claim])
        runner.pass_over(claim)
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
        log.warning("facts_by_rules", key=claim.key, trace_id=claim.trace_id, error=runner.fail(claim, error))
        facts = _extract(how.rules, read, source, how.facts_per_session)
    with database.tenant(tenant_id) as connection:
        if isinstance(extractor, LanguageModelExtractor):
            extractor.forget_answers(connection, source)
        model = how.rules.model if failure else extractor.model
        changed = _save(connection, tenant_id, read, facts, model, monotonic() - started)
        runner.finish_with_fallback(connection, claim, failure)
    return bool(changed)


def _extract(extractor: FactExtractor, read: SessionRead, source: Source, max_facts: int) -> list[Fact]:
    return extractor.extract(
        read.messages,
        people=read.people,
        known=read.known,
        time_zone=ZoneInfo(read.chat.time_zone),
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
        sessions.set_facts(connection, read.row.id, read.row.revision, model)
        lost = evidence.drop_of_session(connection, read.row.id)
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
    return suppression.keeps_out(connection, memory, fingerprint(fact.content))


def _evidence(fact: Fact, saying: Sequence[Message], read: SessionRead, model: str) -> Evidence:
    return Evidence(
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
