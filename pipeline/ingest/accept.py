"""Accept messages, once and for good; then place them into their chat's sessions.

Accepting is one short transaction: the messages, the note that they have arrived, and the work that is owed.
Placing is owed by chat; `placing` does it for several chats at once, and here is what happens when that fails.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy import Connection

from pipeline.ingest import chat_moves, poison
from pipeline.ingest import place as placing
from pipeline.ingest.policy import Rules
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.people import suppression
from pipeline.store import accepting, chats, edits, jobs, membership, sessions
from pipeline.store.database import Database, persistently
from pipeline.store.messages import Arrival
from pipeline.text.fencing import without_recalled
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated
from schemas.messages import ChatIn, MessageIn
from schemas.sessions import number_of

log = structlog.get_logger(__name__)

LOCKED_SECONDS = 0.05
"""How long a chat that is locked is waited for, while no other one is placed: a request is done by then."""

OUTAGES = (DatabaseUnavailable, SchemaOutdated)
"""What befalls every chat alike; of what else may work later, one chat is the victim."""

PUT_OFF_SECONDS = 1.0
"""When a chat is tried again that was locked for longer, as by a deletion or while it is cut anew."""


SLICE_MESSAGES, SLICE_BYTES = 250, 256 * 1024
"""Messages accepted in one transaction, and the bytes of their texts: some 0.1 s."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What became of messages that were handed over."""

    # stored now
    new: int
    # already there by their platform's id; nothing was done
    duplicates: int
    # forgotten, or of somebody who is not to be remembered; nothing was done
    kept_out: int = 0


def accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    given: Sequence[MessageIn],
    *,
    settle: timedelta | None = None,
    trace_id: str | None = None,
) -> Accepted:
    """Store messages of one chat; when this returns they are durable and found by keyword.

    Many or large ones are stored in slices, each a transaction of its own, so that no lock is held for long.
    `settle` says that they belong to a history being imported: live messages go before them, and summaries may
    wait that long.
    Raises `Retryable`: `DatabaseUnavailable` in an outage. Slices before it are stored then, and the same call may
    be made again: what is there already is known by its id.
    """
    # One message of each id: which of two in one call wins must not depend on the database.
    unique = {message.external_id: _without_recalled(message) for message in _numbered(given)}
    new = out = 0
    for some in _slices(list(unique.values())):
        stored, kept_out = persistently(
            partial(_accept, database, tenant_id, chat, some, settle=settle, trace_id=trace_id)
        )
        new, out = new + stored, out + kept_out
    if out == len(unique):
        return Accepted(new=0, duplicates=0, kept_out=len(given))
    return Accepted(new=new, duplicates=len(given) - new - out, kept_out=out)


def _slices(messages: Sequence[MessageIn]) -> Iterator[list[MessageIn]]:
    """The messages in order, in parts that are stored within some 0.1 s; one message is a part at least."""
    some: list[MessageIn] = []
    size = 0
    for message in messages:
        bytes_more = len(message.content.encode())
        if some and (len(some) == SLICE_MESSAGES or size + bytes_more > SLICE_BYTES):
            yield some
            some, size = [], 0
        some.append(message)
        size += bytes_more
    if some:
        yield some


def _accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    given: Sequence[MessageIn],
    *,
    settle: timedelta | None,
    trace_id: str | None,
) -> tuple[int, int]:
    """Store a slice in one transaction; `(new, kept out)`."""
    if settle is None and not any(message.closes_session for message in given):
        key = _keys.get(tenant_id)
        new, stored = database.one_trip(
            accepting.put_at_once(
                tenant_id,
                chat,
                _sized(given),
                key=key,
                hashes=suppression.hashes_of(key, chat.chat_id, given),
                priority=jobs.LIVE,
                trace_id=trace_id,
            )
        ) or (0, False)
        if stored:
            return int(new), 0
    return _accept_step_by_step(database, tenant_id, chat, given, settle=settle, trace_id=trace_id)


# By tenant, as it was read last: whoever uses one has Postgres compare it, so that it need not be read each time.
_keys: dict[str, bytes] = {}


def _accept_step_by_step(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    given: Sequence[MessageIn],
    *,
    settle: timedelta | None,
    trace_id: str | None,
) -> tuple[int, int]:
    """Store a slice of which something may be kept out, or whose chat is new or moved; `(new, kept out)`."""
    out, unnamed = 0, False
    with database.undecided() as connection:
        key, stored = accepting.begin(connection, tenant_id, chat.chat_id)
        if key is not None:
            _keys[tenant_id] = key
        if stored is not None and stored.moved_to is not None:
            before = chat_moves.admit(connection, key, chat.chat_id, stored.moved_to, given)
            given, out, unnamed = before.messages, len(before.kept_out), before.unnamed
            # what is said of a chat under its former id is not said of the other one
            chat = ChatIn(chat_id=stored.moved_to)
            key, stored = accepting.begin(connection, tenant_id, chat.chat_id)
        admitted = suppression.admit(connection, key, chat.chat_id, given)
        if admitted.kept_out:
            edits.drop_pending(connection, chat.chat_id, admitted.kept_out)
        if admitted.unnamed or unnamed:
            membership.note_unknown(connection, tenant_id, chat.chat_id)
        out += len(admitted.kept_out)
        if not admitted.messages:
            return 0, out
        if stored is None or not chats.is_as_said(stored, chat):
            chats.ensure(connection, tenant_id, chat)
            accepting.hold(connection, chat.chat_id)
        if settle is not None:
            chats.settle(connection, chat.chat_id, settle)
        closing = [
            (m.session_key, m.sent_at) for m in admitted.messages if m.closes_session and m.session_key
        ]
        if closing:
            sessions.add_closes(connection, tenant_id, chat.chat_id, closing)
        new = accepting.put(
            connection,
            tenant_id,
            chat.chat_id,
            _sized(admitted.messages),
            closing=bool(closing),
            priority=jobs.LIVE if settle is None else jobs.LATER,
            trace_id=trace_id,
        )
    return new, out


def _sized(messages: Sequence[MessageIn]) -> list[tuple[MessageIn, int]]:
    """Messages with the tokens that they are estimated at."""
    return [(message, estimate_tokens(message.content)) for message in messages]


def _numbered(given: Sequence[MessageIn]) -> Iterator[MessageIn]:
    """The messages; those of one instant that neither a position nor a number as id orders keep the list's order."""
    said: Counter[datetime] = Counter()
    for message in given:
        if "position" in message.model_fields_set or number_of(message.external_id) >= 0:
            yield message
            continue
        place = said[message.sent_at]
        said[message.sent_at] += 1
        yield message.model_copy(update={"position": place}) if place else message


def _without_recalled(message: MessageIn) -> MessageIn:
    """The message without what a context had recalled: that is remembered already."""
    content = without_recalled(message.content)
    return message if content == message.content else message.model_copy(update={"content": content})


def placer(database: Database, rules: Rules, max_attempts: int = 5) -> runner.Handler:
    """The handler of `ingest` work: each claim is a chat whose arrivals are placed.

    Chats that come together are placed together. One whose placing failed before, or whose process died, is placed
    message by message: a message that cannot be placed, or that ended `max_attempts` processes, stands aside.
    """

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        fresh = [claim for claim in claims if claim.attempts == 1 and not claim.abandoned]
        follows: set[str] = set()
        for start in range(0, len(fresh), placing.CHATS_AT_ONCE):
            follows |= _turn(database, tenant_id, fresh[start : start + placing.CHATS_AT_ONCE], rules)
        # last, so that what they fail of takes nothing with it
        for claim in claims:
            if claim not in fresh:
                put = partial(_place_one, claim, rules)
                owed, all_tried = poison.place_each(database, tenant_id, claim, max_attempts, put)
                follows |= owed
                if all_tried:
                    follows |= _turn(database, tenant_id, [claim], rules)
        return follows

    return handle


def _place_one(claim: Claim, rules: Rules, connection: Connection, arrival: Arrival) -> frozenset[str]:
    traces = {claim.key: claim.trace_id}
    return placing.place(connection, claim.tenant_id, traces, rules, only=arrival.message_id).follows


def _turn(database: Database, tenant_id: str, claims: Sequence[Claim], rules: Rules) -> frozenset[str]:
    """Place chats together; in a conflict one by one, and put off what is in conflict even then."""
    try:
        follows, left = _place(database, tenant_id, claims, rules)
    except Retryable as error:
        if len(claims) == 1 or isinstance(error, OUTAGES):
            raise
        follows, left = frozenset(), list(claims)
    if left:
        time.sleep(LOCKED_SECONDS)
    for claim in left:
        try:
            owed, locked = _place(database, tenant_id, [claim], rules)
        except OUTAGES:
            raise
        except Retryable as error:
            log.info("placing_put_off", chat_id=claim.key, error=str(error))
            owed, locked = frozenset(), [claim]
        follows |= owed
        if locked:
            _put_off(database, claim)
    return follows


def _put_off(database: Database, claim: Claim) -> None:
    """Let go of a chat that somebody else has locked; this was no try."""
    with database.tenant(claim.tenant_id) as connection:
        jobs.release(
            connection,
            claim.kind,
            [(claim.tenant_id, claim.key, claim.token)],
            error="the chat is locked by somebody else",
            delay_seconds=PUT_OFF_SECONDS,
            counts=False,
            dead=False,
            max_attempts=claim.attempts,
        )


def _place(
    database: Database, tenant_id: str, claims: Sequence[Claim], rules: Rules
) -> tuple[frozenset[str], list[Claim]]:
    """Place the chats of these claims and finish them: `(kinds owed now, claims whose chat is locked)`."""
    with database.tenant(tenant_id) as connection:
        traces = {claim.key: claim.trace_id for claim in claims}
        placed = placing.place(connection, tenant_id, traces, rules)
        done = [claim for claim in claims if claim.key not in placed.locked]
        runner.finish(connection, [claim for claim in done if claim.key not in placed.more])
        runner.finish(connection, [claim for claim in done if claim.key in placed.more], again_in=0)
    return placed.follows, [claim for claim in claims if claim.key in placed.locked]
