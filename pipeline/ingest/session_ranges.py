"""Write sessions as ranges of messages: begin, grow, join, split again, close; many in the same few statements."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from pipeline.ingest import sessionize
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store import vectors
from pipeline.store.chats import chats
from pipeline.store.connections import transactions
from pipeline.store.erasure import retention
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import LATER, LIVE, NewJob
from pipeline.store.memories import learned
from pipeline.store.messages import edits, message_rows
from pipeline.store.operations import counters
from pipeline.store.sessions import ranges as store
from pipeline.store.sessions import rollups, session_rows
from pipeline.store.sessions.ranges import Begun, SessionShape
from schemas.kinds import EXTRACT, FENCED_BY_CHANGE, SUMMARIZE
from schemas.sessions import Session

# Every time that a message may have.
FOREVER = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))

AFTER_SUMMARY_SECONDS = 2.0
"""Delay of fact extraction after the summary: if a worker dies while it runs both, that counts against both jobs."""


@dataclass(kw_only=True)
class Rewrite:
    """Changes to sessions that are written together."""

    begun: list[Begun] = field(default_factory=list)
    # sessions to join, by their survivor's id, the lowest one
    joined: dict[int, list[int]] = field(default_factory=dict)
    # by id: the new range, and the messages and tokens that are added
    grown: dict[int, SessionShape] = field(default_factory=dict)
    # by id: the new range, and the messages and tokens in all
    cut: dict[int, SessionShape] = field(default_factory=dict)
    # chats by the id of a session that was closed, and is open again
    reopened: dict[int, str] = field(default_factory=dict)
    # trace ids by chat, for the log
    traces: Mapping[str, str | None] = field(default_factory=dict)

    def join(self, together: Sequence[Session]) -> int:
        """Join sessions into the one with the lowest id, and return that id."""
        first, *others = sorted(together, key=lambda session: session.id)
        if first.status != "open":
            self.reopened[first.id] = first.chat_id
        if others:
            self.joined[first.id] = [session.id for session in others]
        return first.id

    def write(self, connection: Connection, tenant_id: str) -> None:
        """Write all changes, joins first, so that no two sessions begin at the same time."""
        brought = _join(connection, tenant_id, self.joined)
        for survivor, (count, tokens) in brought.items():
            if survivor in self.grown:
                shape = self.grown[survivor]
                self.grown[survivor] = replace(
                    shape, message_count=shape.message_count + count, token_count=shape.token_count + tokens
                )
        store.reshape(connection, self.cut)
        store.grow(connection, self.grown)
        begun = store.insert(connection, tenant_id, self.begun)
        for event, changed in (("session_opened", begun), ("session_reopened", self.reopened.items())):
            for session_id, chat_id in changed:
                trace_id = self.traces.get(chat_id)
                ids = {"session_id": session_id, "chat_id": chat_id, "trace_id": trace_id}
                transactions.log_once_committed(connection, event, tenant=tenant_id, **ids)
        counters.add(connection, tenant_id, {"sessions_opened": len(self.begun)})


def _join(
    connection: Connection, tenant_id: str, joined: Mapping[int, Sequence[int]]
) -> dict[int, tuple[int, int]]:
    """Join sessions; return the `(messages, tokens)` that each survivor gains."""
    into = {loser: survivor for survivor, losers in joined.items() for loser in losers}
    if not into:
        return {}
    brought = store.merge(connection, into)
    store.move_memories(connection, into)
    retention.merge_pruned_senders(connection, into)
    learned.merge_evidence_of_sessions(connection, list(into), list(into.values()))
    vectors.drop_sessions(connection, list(into))
    rollups.clear(connection, tenant_id, list(into))
    jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"session:{loser}" for loser in into])
    return brought


def close_sessions(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    policy: SessionPolicy,
    *,
    trace_id: str | None = None,
    priority: int = LIVE,
) -> int:
    """Close a chat's ended sessions and enqueue the jobs that follow; return how many sessions have any."""
    remembered = [chat_id] if policy.memory else []
    due = close_and_plan(connection, tenant_id, {chat_id: trace_id}, policy, remembered, priority)
    jobs.enqueue_all(connection, tenant_id, due)
    return len({job.key for job in due})


def close_and_plan(
    connection: Connection,
    tenant_id: str,
    traces: Mapping[str, str | None],
    policy: SessionPolicy,
    remembered: Collection[str],
    priority: int = LIVE,
) -> list[NewJob]:
    """Close ended sessions of chats; return the summary and learning jobs that follow in `remembered` chats.

    `traces` are trace ids by chat. Jobs of a chat whose history is being imported wait until it has settled, behind all
    others (`LATER`).
    """
    ended = session_rows.close_ended(connection, list(traces), policy.gap, policy.ttl)
    # one that a late message opened, and that has ended all the same, was closed all along
    unchanged = transactions.take_back_lines(
        connection, "session_reopened", "session_id", {s.id for s in ended}
    )
    counters.add(connection, tenant_id, {"sessions_closed": len(ended) - len(unchanged)})
    for session in (session for session in ended if session.id not in unchanged):
        transactions.log_once_committed(
            connection,
            "session_closed",
            tenant=tenant_id,
            session_id=session.id,
            chat_id=session.chat_id,
            messages=session.message_count,
            trace_id=traces[session.chat_id],
        )
    kinds = [kind for kind, is_on in ((SUMMARIZE, policy.summaries), (EXTRACT, policy.facts)) if is_on]
    if not (remembered and kinds):
        return []
    due = {session.id: session.chat_id for session in ended if session.chat_id in remembered}
    if policy.summaries:
        # growth counts from the last summary: without summaries, facts are learned once the session is closed
        due |= session_rows.wanting_rollup(
            connection,
            remembered,
            policy.rolling_messages,
            policy.rolling_tokens,
            named_messages=policy.named_rolling_messages,
        )
    settling = chats.settling_seconds(connection, sorted(set(due.values()))) if due else {}
    waits = {chat: max(policy.debounce_seconds, settling.get(chat, 0.0)) for chat in set(due.values())}
    return [
        NewJob(
            kind=str(kind),
            key=f"session:{session_id}",
            lane=chat_id,
            priority=LATER if chat_id in settling else priority,
            delay_seconds=waits[chat_id]
            + (AFTER_SUMMARY_SECONDS if kind is EXTRACT and waits[chat_id] else 0.0),
            trace_id=traces[chat_id],
        )
        for session_id, chat_id in due.items()
        for kind in kinds
    ]


def split_anew(
    connection: Connection, tenant_id: str, session: Session, language: str, policy: SessionPolicy
) -> None:
    """Split a session again, after a close marker or a deletion inside it; delete it if it is empty.

    The earliest part keeps the id.
    """
    if not split_unless_empty(connection, tenant_id, session, language, policy):
        edits.drop_session(connection, tenant_id, session.id)


def split_unless_empty(
    connection: Connection, tenant_id: str, session: Session, language: str, policy: SessionPolicy
) -> bool:
    """Split a session again as `split_anew` does; if it is empty, return False and change nothing."""
    place = session.chat_id, session.session_key
    closes = session_rows.closes(connection, [place])[place]
    rows = message_rows.times(connection, *place, session.started_at, session.ended_at)
    parts = sessionize.split((row[0] for row in rows), policy.gap_of(session.session_key), closes)
    if not parts:
        return False
    rewrite = Rewrite()
    _add_differences(rewrite, place, language, sessionize.match([session], parts), rows)
    rewrite.write(connection, tenant_id)
    return True


def merge_emptied(connection: Connection, tenant_id: str, into: Mapping[int, int]) -> None:
    """Merge emptied sessions into those that have their messages now (`{emptied: other}`)."""
    groups: dict[int, list[int]] = {}
    for emptied, other in into.items():
        groups.setdefault(other, []).append(emptied)
    _join(connection, tenant_id, groups)


def sessionize_anew(connection: Connection, tenant_id: str, chat_id: str, policy: SessionPolicy) -> None:
    """Split a chat's sessions again after the gap has changed; leave unchanged ones alone."""
    chat = chats.lock(connection, chat_id)
    if chat is None:
        return
    policy = policy.for_chat(chat)
    if not policy.memory:
        return
    keys = session_rows.keys(connection, chat_id)
    closes = session_rows.closes(connection, [(chat_id, key) for key in keys])
    rewrite = Rewrite()
    for key in keys:
        rows = message_rows.times(connection, chat_id, key, *FOREVER)
        stored, times = sessionize.after_pruned(
            store.of_key(connection, chat_id, key), [row[0] for row in rows]
        )
        if parts := sessionize.split(times, policy.gap_of(key), closes[chat_id, key]):
            _add_differences(rewrite, (chat_id, key), chat.language, sessionize.match(stored, parts), rows)
    rewrite.write(connection, tenant_id)
    # live summaries go first: this may run for every chat
    close_sessions(connection, tenant_id, chat_id, policy, priority=LATER)


def _add_differences(
    rewrite: Rewrite,
    place: tuple[str, str],
    language: str,
    matches: Iterable[sessionize.Match],
    rows: Sequence[tuple[datetime, str, int]],
) -> None:
    """Add the ranges of a session key that differ from the stored sessions."""
    chat_id, session_key = place
    times = [at for at, _, _ in rows]
    for match in matches:
        inside = rows[bisect_left(times, match.range.started_at) : bisect_right(times, match.range.ended_at)]
        shape = SessionShape(
            started_at=match.range.started_at,
            ended_at=match.range.ended_at,
            message_count=match.range.count,
            token_count=sum(tokens for _, _, tokens in inside),
            participants=sorted({speaker for _, speaker, _ in inside}),
        )
        if match.session is None:
            rewrite.begun.append(
                Begun(chat_id=chat_id, session_key=session_key, language=language, shape=shape)
            )
        elif match.merged or _extent(match.session) != _extent(shape):
            rewrite.cut[rewrite.join([match.session, *match.merged])] = shape


def _extent(session: Session | SessionShape) -> tuple[datetime, datetime, int]:
    return session.started_at, session.ended_at, session.message_count
