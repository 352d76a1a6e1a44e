"""Place what has arrived in several chats into their sessions, in one transaction.

It takes the same statements however many chats, session keys and messages there are: lock the chats, read what has
arrived and the sessions around it, ask the pure function what changes, write ranges (never messages), close what has
ended, and owe what follows.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from pipeline.ingest import session_ranges, sessionize
from pipeline.ingest.policy import Rules
from pipeline.ingest.session_ranges import Rewrite
from pipeline.store import chats, jobs, messages, sessions
from pipeline.store import ranges as store
from pipeline.store.chats import Chat
from pipeline.store.jobs import NewJob
from pipeline.store.messages import Arrival
from pipeline.store.ranges import Begun, Shape, Window
from schemas.sessions import Session

ARRIVALS_AT_ONCE = 500
"""Messages placed in one transaction: some 0.1 s, for which their chats are locked and others wait."""

CHATS_AT_ONCE = 50
"""Chats placed in one transaction: beyond that, statements cost little beside the rows."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What one transaction did."""

    # chats that somebody else has locked: nothing was done
    locked: frozenset[str]
    # chats in which more waits than one turn takes
    more: frozenset[str]
    # kinds of work that are owed now
    follows: frozenset[str]


def place(
    connection: Connection,
    tenant_id: str,
    traces: Mapping[str, str | None],
    rules: Rules,
    *,
    only: int | None = None,
) -> Placed:
    """Place what has arrived in these chats, or `only` this message.

    `traces` are the requests that brought the messages, of several the last one's, by chat: what is owed carries them
    on.
    """
    free = chats.lock_free(connection, list(traces))
    missing = [chat_id for chat_id in traces if chat_id not in free]
    locked = frozenset(chats.existing(connection, missing)) if missing else frozenset()
    if not free:
        return Placed(locked=locked, more=frozenset(), follows=frozenset())
    arrived, more = (
        messages.arrivals(connection, list(free), ARRIVALS_AT_ONCE)
        if only is None
        else (messages.arrival(connection, only), frozenset[str]())
    )
    remembered = {chat_id for chat_id, chat in free.items() if rules.for_chat(chat).memory}
    put(connection, tenant_id, free, [a for a in arrived if a.chat_id in remembered], rules)
    _leave_the_queue(connection, arrived)
    for session in sessions.newly_cut(connection, sorted(remembered)):
        session_ranges.split_anew(connection, tenant_id, session, free[session.chat_id].language, rules)

    owed = [
        NewJob(kind="embed", key=a.key, lane=a.chat_id, priority=a.priority, trace_id=traces[a.chat_id])
        for a in arrived
        if a.has_text and a.chat_id in remembered
    ]
    owed += session_ranges.closed(
        connection, tenant_id, {chat_id: traces[chat_id] for chat_id in free}, rules, remembered
    )
    jobs.enqueue_all(connection, tenant_id, owed)
    return Placed(locked=locked, more=more, follows=frozenset(one.kind for one in owed))


def _leave_the_queue(connection: Connection, arrived: Sequence[Arrival]) -> None:
    """Count arrivals among the placed messages of their chats."""
    if not arrived:
        return
    placed: dict[str, tuple[int, int]] = {}
    for each in arrived:
        count, lexemes = placed.get(each.chat_id, (0, 0))
        placed[each.chat_id] = (count + 1, lexemes + each.lexeme_count)
    chats.count_all_placed(connection, placed)
    messages.forget_arrivals(connection, [each.message_id for each in arrived])


def put(
    connection: Connection,
    tenant_id: str,
    of: Mapping[str, Chat],
    arrived: Sequence[Arrival],
    rules: Rules,
) -> None:
    """Extend, join or begin the sessions that the arrivals belong to."""
    if not arrived:
        return
    by_place: dict[tuple[str, str], list[Arrival]] = defaultdict(list)
    for each in arrived:
        by_place[each.chat_id, each.session_key].append(each)
    windows = [
        Window(chat_id=place[0], session_key=place[1], start=start, end=end)
        for place, some in by_place.items()
        for start, end in sessionize.windows((a.sent_at for a in some), rules.gap_of(place[1]))
    ]
    stored: dict[tuple[str, str], list[Session]] = defaultdict(list)
    for session in store.near(connection, windows):
        stored[session.chat_id, session.session_key].append(session)
    closes = sessions.closes(connection, by_place)
    rewrite = Rewrite()
    for place, some in by_place.items():
        _note(rewrite, of[place[0]], some, stored[place], closes[place], rules)
    rewrite.write(connection, tenant_id)


def _note(
    rewrite: Rewrite,
    chat: Chat,
    arrived: Sequence[Arrival],
    stored: Sequence[Session],
    closes: Sequence[datetime],
    rules: Rules,
) -> None:
    """Note what arrivals of one session key change."""
    session_key = arrived[0].session_key
    times = [arrival.sent_at for arrival in arrived]
    for placement in sessionize.place(stored, times, rules.gap_of(session_key), closes):
        here = [arrived[index] for index in placement.arrivals]
        speakers = {arrival.speaker for arrival in here}
        shape = Shape(
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
