"""Place the arrivals of several chats into their sessions, in one transaction, or one by one if that fails.

The number of statements does not depend on that of chats, session keys and messages: lock the chats, read the arrivals
and the sessions around them, compute the changes (`sessionize`), write ranges (never messages), close ended sessions,
and enqueue the jobs that follow. A chat whose placing fails is placed message by message (`place_each`).

Each try is counted before it is made: an arrival whose count is left was tried by a process that died, and is tried
last. An arrival to blame becomes a dead letter with the reason, and the rest of the chat goes on.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.ingest import languages, session_ranges, sessionize
from pipeline.ingest.session_ranges import Rewrite
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.failures import reason_of
from pipeline.store.chats import chats
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched
from pipeline.store.jobs import job_admin, jobs
from pipeline.store.jobs.jobs import Claim, NewJob
from pipeline.store.messages import message_rows
from pipeline.store.messages.message_rows import Arrival, MessageText
from pipeline.store.operations import counters
from pipeline.store.sessions import ranges as store
from pipeline.store.sessions import session_rows
from pipeline.store.sessions.ranges import Begun, SessionShape, Window
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated
from schemas.kinds import INGEST, LANGUAGE
from schemas.sessions import Session

log = structlog.get_logger(__name__)

ARRIVALS_AT_ONCE = 500
"""Messages placed in one transaction: about 0.1 s, during which their chats are locked."""

CHATS_AT_ONCE = 50
"""Chats placed in one transaction: with more, statements would cost little beside the rows."""


LOCK_WAIT_SECONDS = 0.05
"""How long to wait for a locked chat, while no other is placed: a request is done by then."""

LOCKED = "the chat is locked by somebody else"
PUT_OFF_SECONDS = 1.0
"""When to try a chat again that is locked for longer, as by a deletion or a new split."""

OUTAGES = (DatabaseUnavailable, SchemaOutdated)
"""Errors that affect every chat alike; other retryable errors affect one chat."""


def placer(database: Database, policy: SessionPolicy, max_attempts: int = 5) -> runner.Handler:
    """Make the handler of `ingest` jobs: each claim is a chat whose arrivals are placed.

    A chat whose placing failed before, or whose process died, is placed message by message: a message that cannot be
    placed, or that ended `max_attempts` processes, goes into quarantine.
    """

    def handle(_: str, claims: Sequence[Claim]) -> set[str]:
        fresh = [claim for claim in claims if claim.attempts == 1 and not claim.abandoned]
        follows: set[str] = set()
        for batch in batched(fresh, CHATS_AT_ONCE):
            follows |= _place_together(database, batch, policy)
        # last, so that their failures do not affect the others
        for claim in claims:
            if claim not in fresh:
                place_one = partial(_place_one, claim, policy)
                due, all_tried = place_each(database, claim, max_attempts, place_one)
                follows |= due
                if all_tried:
                    follows |= _place_together(database, [claim], policy)
        return follows

    return handle


def _place_one(
    claim: Claim, policy: SessionPolicy, connection: Connection, arrival: Arrival
) -> frozenset[str]:
    traces = {claim.key: claim.trace_id}
    return place(connection, claim.tenant_id, traces, policy, only=arrival.message_id).follows


def _place_together(database: Database, claims: Sequence[Claim], policy: SessionPolicy) -> frozenset[str]:
    """Place chats together; after a conflict one by one, and put off those still in conflict."""
    try:
        follows, left = _place_and_finish(database, claims, policy)
    except Retryable as error:
        if len(claims) == 1 or isinstance(error, OUTAGES):
            raise
        follows, left = frozenset(), list(claims)
    if left:
        time.sleep(LOCK_WAIT_SECONDS)
    for claim in left:
        try:
            due, locked = _place_and_finish(database, [claim], policy)
        except OUTAGES:
            raise
        except Retryable as error:
            log.info("placing_put_off", chat_id=claim.key, error=str(error))
            due, locked = frozenset(), [claim]
        follows |= due
        if locked:
            with database.tenant(claim.tenant_id) as connection:
                jobs.release(connection, [claim], delay_seconds=PUT_OFF_SECONDS, error=LOCKED)
            runner.pass_over(claim)
    return follows


def _place_and_finish(
    database: Database, claims: Sequence[Claim], policy: SessionPolicy
) -> tuple[frozenset[str], list[Claim]]:
    """Place the chats of one tenant's claims and finish these; return `(kinds due now, claims of locked chats)`."""
    tenant_id = claims[0].tenant_id
    with database.tenant(tenant_id) as connection:
        traces = {claim.key: claim.trace_id for claim in claims}
        placed = place(connection, tenant_id, traces, policy)
        done = [claim for claim in claims if claim.key not in placed.locked]
        jobs.finish(connection, [claim for claim in done if claim.key not in placed.more])
        jobs.finish(connection, [claim for claim in done if claim.key in placed.more], again_in=0)
    # a large history does not wait for a sweep after each part
    follows = placed.follows | {INGEST.name} if placed.more else placed.follows
    return follows, [claim for claim in claims if claim.key in placed.locked]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The result of one transaction."""

    # chats that somebody else has locked
    locked: frozenset[str]
    # chats with more arrivals than one turn takes
    more: frozenset[str]
    # kinds of jobs that are due now
    follows: frozenset[str]


def place(
    connection: Connection,
    tenant_id: str,
    traces: Mapping[str, str | None],
    policy: SessionPolicy,
    *,
    only: int | None = None,
) -> Placed:
    """Place the arrivals of these chats, or `only` this message.

    `traces` maps each chat to the last request that brought messages; the jobs that follow carry it on.
    """
    free = chats.lock_free(connection, list(traces))
    missing = [chat_id for chat_id in traces if chat_id not in free]
    locked = frozenset(chats.existing(connection, missing)) if missing else frozenset()
    if not free:
        return Placed(locked=locked, more=frozenset(), follows=frozenset())
    arrived, more = (
        message_rows.arrivals(connection, list(free), ARRIVALS_AT_ONCE)
        if only is None
        else (message_rows.arrival(connection, only), frozenset[str]())
    )
    remembered = {chat_id for chat_id, chat in free.items() if policy.for_chat(chat).memory}
    kept = [a for a in arrived if a.chat_id in remembered]
    update_sessions(connection, tenant_id, free, kept, policy, traces)
    texts = ((MessageText(a.message_id, a.chat_id, a.role, a.text), free[a.chat_id].language) for a in kept)
    languages.store_cues(connection, tenant_id, texts)
    to_detect = _mark_placed(connection, free, arrived)
    for session in session_rows.newly_cut(connection, sorted(remembered)):
        chat = free[session.chat_id]
        session_ranges.split_anew(connection, tenant_id, session, chat.language, policy.for_chat(chat))

    due = [
        NewJob(kind="embed", key=a.key, lane=a.chat_id, priority=a.priority, trace_id=traces[a.chat_id])
        for a in kept
        if a.text
    ]
    due += session_ranges.close_and_plan(
        connection, tenant_id, {chat_id: traces[chat_id] for chat_id in free}, policy, remembered
    )
    due += [
        NewJob(kind=LANGUAGE.name, key=chat_id, lane=chat_id, priority=jobs.LATER, trace_id=traces[chat_id])
        for chat_id in to_detect
    ]
    jobs.enqueue_all(connection, tenant_id, due)
    return Placed(locked=locked, more=more, follows=frozenset(job.kind for job in due))


def _mark_placed(connection: Connection, by_id: Mapping[str, Chat], arrived: Sequence[Arrival]) -> list[str]:
    """Count arrivals as placed and take them off the queue; return the chats whose language detection is due."""
    if not arrived:
        return []
    placed: dict[str, tuple[int, int]] = {}
    for arrival in arrived:
        count, lexemes = placed.get(arrival.chat_id, (0, 0))
        placed[arrival.chat_id] = (count + 1, lexemes + arrival.lexeme_count)
    chats.count_all_placed(connection, placed)
    message_rows.forget_arrivals(connection, [arrival.message_id for arrival in arrived])
    return [
        chat_id
        for chat_id, (count, _) in placed.items()
        if by_id[chat_id].language_by != DECLARED
        and languages.detection_due(by_id[chat_id].message_count, by_id[chat_id].message_count + count)
    ]


def update_sessions(
    connection: Connection,
    tenant_id: str,
    by_id: Mapping[str, Chat],
    arrived: Sequence[Arrival],
    policy: SessionPolicy,
    traces: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Extend, join or begin the sessions of the arrivals; `traces` maps each chat to the request that brought them."""
    if not arrived:
        return
    by_place: dict[tuple[str, str], list[Arrival]] = defaultdict(list)
    for arrival in arrived:
        by_place[arrival.chat_id, arrival.session_key].append(arrival)
    windows = [
        Window(chat_id=place[0], session_key=place[1], start=start, end=end)
        for place, group in by_place.items()
        for start, end in sessionize.windows(
            (a.sent_at for a in group), policy.for_chat(by_id[place[0]]).gap_of(place[1])
        )
    ]
    stored: dict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in store.near(connection, windows):
        stored[session.chat_id, session.session_key].append(session)
    closes = session_rows.closes(connection, by_place)
    rewrite = Rewrite(traces=traces)
    for place, group in by_place.items():
        _add_changes(
            rewrite, by_id[place[0]], group, stored[place], closes[place], policy.for_chat(by_id[place[0]])
        )
    rewrite.write(connection, tenant_id)


def _add_changes(
    rewrite: Rewrite,
    chat: Chat,
    arrived: Sequence[Arrival],
    stored: Sequence[Session],
    closes: Sequence[datetime],
    policy: SessionPolicy,
) -> None:
    """Add the changes that arrivals of one session key make."""
    session_key = arrived[0].session_key
    times = [arrival.sent_at for arrival in arrived]
    for placement in sessionize.place(stored, times, policy.gap_of(session_key), closes):
        here = [arrived[index] for index in placement.arrivals]
        speakers = {arrival.speaker for arrival in here}
        shape = SessionShape(
            started_at=placement.started_at,
            ended_at=placement.ended_at,
            message_count=len(here),
            token_count=sum(arrival.token_count for arrival in here),
            participants=sorted(speakers.union(*(session.participants for session in placement.sessions))),
        )
        if placement.sessions:
            rewrite.grown[rewrite.join(placement.sessions)] = shape
        else:
            rewrite.begun.append(
                Begun(chat_id=chat.chat_id, session_key=session_key, language=chat.language, shape=shape)
            )


LEASE_SECONDS = 5.0
"""The lease while one arrival is tried, which takes milliseconds: if the process dies, the chat waits no longer."""

ARRIVALS_PER_TURN = 500
"""Arrivals tried in one turn: some ten seconds."""

MAX_BLAMED_PER_TURN = 10
"""If more arrivals than this fail in one turn, the fault is elsewhere: none is quarantined."""

# SQLSTATE classes that blame the row: data, constraints, limits, and errors raised by triggers. All others
# (connections, locks, space, missing tables) would fail any message.
_ROW_ERROR_CLASSES = ("22", "23", "54", "P0")

PlaceOne = Callable[[Connection, Arrival], Set[str]]
"""Place one arrival; return the kinds of jobs that are due now."""


def blames_the_row(error: Exception) -> bool:
    """Tell whether an error can be a single message's fault: its values, and not the state of the servers."""
    if isinstance(error, DBAPIError):
        return (getattr(error.orig, "sqlstate", None) or "").startswith(_ROW_ERROR_CLASSES)
    return isinstance(error, (ArithmeticError, ValueError))


def place_each(
    database: Database, claim: Claim, max_attempts: int, place_one: PlaceOne
) -> tuple[set[str], bool]:
    """Try each arrival of the chat in a transaction of its own; return `(kinds due now, whether all were tried)`.

    If there are more than one turn takes, the claim is due at once: after an error its arrivals are placed together
    again, after a process death one by one until all were tried. A death resets the chat's attempts: they are counted
    for each arrival, with the joint try as one of each. Raises `LeaseLost`, and errors of `place_one` that blame no
    arrival or too many.
    """
    tenant_id = claim.tenant_id
    follows: set[str] = set()
    blamed: dict[int, str] = {}
    with database.tenant(tenant_id) as connection:
        arrived, _ = message_rows.arrivals(connection, [claim.key], ARRIVALS_PER_TURN + 1)
        tries = job_admin.tries(connection, [arrival.key for arrival in arrived])
    waiting = sorted(arrived, key=lambda arrival: tries.get(arrival.key, 0))
    for arrival in waiting[:ARRIVALS_PER_TURN]:
        died = tries.get(arrival.key, 0)
        if died >= max_attempts - 1:
            reason = f"the process that placed it died each time, {died + 1} tries"
            _quarantine(database, claim, {arrival.message_id: reason})
            continue
        with database.tenant(tenant_id) as connection:
            jobs.renew(connection, claim, LEASE_SECONDS, anew=claim.abandoned)
            job_admin.count_try(connection, tenant_id, arrival.key)
        try:
            with database.tenant(tenant_id) as connection:
                follows |= place_one(connection, arrival)
                job_admin.clear_tries(connection, tenant_id, arrival.key)
        except Exception as error:
            with database.tenant(tenant_id) as connection:
                job_admin.clear_tries(connection, tenant_id, arrival.key)
            if not blames_the_row(error) or len(blamed) == MAX_BLAMED_PER_TURN:
                raise
            blamed[arrival.message_id] = reason_of(error)
    _quarantine(database, claim, blamed)
    if len(waiting) <= ARRIVALS_PER_TURN:
        return follows, True
    with database.tenant(tenant_id) as connection:
        if claim.abandoned:
            jobs.renew(connection, claim, 0, anew=True)
        else:
            jobs.finish(connection, [claim], again_in=0)
    return follows, False


def _quarantine(database: Database, claim: Claim, blamed: dict[int, str]) -> None:
    """Quarantine arrivals, each with its reason."""
    if not blamed:
        return
    tenant_id = claim.tenant_id
    with database.tenant(tenant_id) as connection:
        for message_id, reason in blamed.items():
            message_rows.quarantine(connection, claim.key, message_id, reason, claim.trace_id)
            job_admin.clear_tries(connection, tenant_id, f"message:{message_id}")
            log.warning("arrival_quarantined", chat_id=claim.key, message_id=message_id, error=reason)
        counters.add(connection, tenant_id, {"messages_quarantined": len(blamed)})
