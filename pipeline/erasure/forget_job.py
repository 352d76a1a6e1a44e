"""Run one turn of a forgetting: delete step by step what is left, and verify at the end.

Each step is a transaction of its own that takes something away, so that a turn may be killed at any point and the
next one goes on with what is left.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.erasure import derived, edits, verify
from pipeline.erasure.verify import Probes
from pipeline.ingest import chat_moves, session_ranges
from pipeline.ingest.policy import Rules
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.people import suppression
from pipeline.store import chat_moves as store_moving
from pipeline.store import chats, counters, erasure, identities, jobs, membership, query_log
from pipeline.store import edits as store_changes
from pipeline.store import erasure as store
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.forgetting import Receipt, Subject

BATCH = 40
"""Messages, sessions or memories in one transaction, during which their chat's accepting waits."""
CHARS_AT_ONCE = 20_000
"""Of messages in one transaction: each word is looked for in the query log."""
SESSIONS = 20
"""Sessions cut again in one transaction."""
MOVING_SECONDS = 1.0
"""After which it is looked again whether a chat that was being moved is where it goes."""
SECONDS_AT_ONCE = 40.0
"""Then the work is put back and claimed anew: well under a lease and a worker's time limit."""


class Forgetting:
    """One turn of one forgetting, which `forget.start` began."""

    def __init__(self, database: Database, tenant_id: str, claim: Claim, rules: Rules) -> None:
        self.database = database
        self.tenant_id = tenant_id
        self.claim = claim
        self.rules = rules
        self.id = int(claim.key)
        # every id of the person who is forgotten
        self.senders: list[str] | None = None
        # of a chat that is removed: what is sent again is stored again
        self.again = False
        self.probes = Probes()
        self.follows: set[str] = set()

    def run(self) -> set[str]:
        """Delete until nothing is left or the time is up, and return the kinds of jobs that follow."""
        started = monotonic()
        with self.database.tenant(self.tenant_id) as connection:
            known, receipt = (
                erasure.receipt_subject(connection, self.id),
                erasure.get_receipt(connection, self.id),
            )
            if known is None or receipt is None:
                runner.finish(connection, [self.claim])
                return set()
            self.senders = known.pop("senders", None)
            names = known.pop("names", None)
            self.again = known.pop("again", False)
            into = known.pop("into", None)
            if into is None and store_moving.under_way(connection):
                # it would look for what is to go in one chat while it is on its way to another
                runner.finish(connection, [self.claim], again_in=MOVING_SECONDS)
                return set()
            if names is None:
                names = self._names(connection)
            subject = Subject.model_validate(known)
            if subject.kind == "message":
                place = store_moving.address(connection, *subject.names)
                subject = subject.model_copy(update=dict(zip(("chat_id", "external_id"), place, strict=True)))
        steps = self._steps(subject, receipt, names) if into is None else self._move(subject, into)
        for _ in steps:
            if monotonic() - started > SECONDS_AT_ONCE:
                with self.database.tenant(self.tenant_id) as connection:
                    runner.finish(connection, [self.claim], again_in=0)
                return self.follows | {"forget"}
        with self.database.tenant(self.tenant_id) as connection:
            kept_out = not self.again and into is None
            found = self.probes.found_again(connection, subject, receipt) if kept_out else {}
            erasure.add_counts(connection, self.id, found, done=True)
            counters.add(connection, self.tenant_id, {"forgotten": 1} if kept_out else {})
            runner.finish(connection, [self.claim])
        return self.follows

    def _names(self, connection: Connection) -> list[str]:
        """Look up and keep the person's names before their first message goes."""
        if self.senders is None:
            return []
        names = [*store.names_of(connection, self.senders), *self.senders]
        erasure.keep_names(connection, self.id, names)
        return names

    def _move(self, subject: Subject, into: str) -> Iterator[None]:
        chat_id = str(subject.chat_id)
        for summaries in chat_moves.steps(self.database, self.tenant_id, self.id, chat_id, into, self.rules):
            self.follows |= {"ingest", "summarize"} if summaries else {"ingest"}
            yield

    def _steps(self, subject: Subject, receipt: Receipt, names: Sequence[str]) -> Iterator[None]:
        """Delete step by step, each in a transaction of its own that takes something away."""
        with self.database.tenant(self.tenant_id) as connection:
            if subject.external_id is not None:
                store_changes.drop_pending(connection, str(subject.chat_id), [subject.external_id])
            # behind the tombstone nothing more of theirs is recorded
            if self.senders is not None:
                asked = query_log.redact_askers(connection, self.senders, receipt.until)
                erasure.add_counts(connection, self.id, {"queries": asked})
            elif subject.kind in {"chat", "tenant"}:
                asked = query_log.delete(connection, receipt.until, subject.chat_id)
                erasure.add_counts(connection, self.id, {"queries": asked})
            spoken_in = (
                [subject.chat_id] if subject.chat_id is not None else store.chats_of(connection, self.senders)
            )
        for chat_id in spoken_in:
            yield from self._messages(chat_id, subject, receipt)
            if subject.kind in {"chat", "tenant"}:
                yield from self._chat(chat_id, receipt)
        if subject.kind == "user":
            with self.database.tenant(self.tenant_id) as connection:
                store.unname_merged(connection, names)
                pruned_in = store.chats_with_pruned_sessions(connection, names)
            for chat_id in pruned_in:
                yield from self._pruned(chat_id, names)
        if subject.kind != "message":
            yield from self._memories(subject, receipt)
        if self.senders is not None:
            with self.database.tenant(self.tenant_id) as connection:
                named_in = membership.chats_to_unname(connection, self.senders)
            for chat_id in named_in:
                with self.database.tenant(self.tenant_id) as connection:
                    suppression_list.lock(connection, self.tenant_id, chat_id, alone=True)
                    membership.unname(connection, chat_id, self.senders)
                yield
            with self.database.tenant(self.tenant_id) as connection:
                suppression_list.lock(connection, self.tenant_id, alone=True)
                erasure.add_counts(
                    connection, self.id, {"links": identities.forget(connection, self.senders)}
                )
        if subject.kind == "tenant":
            with self.database.tenant(self.tenant_id) as connection:
                # nobody may be linking people while those go
                suppression_list.lock(connection, self.tenant_id, alone=True)
                store.empty_tenant(connection, self.tenant_id, receipt.until)

    def _messages(self, chat_id: str, subject: Subject, receipt: Receipt) -> Iterator[None]:
        with self.database.tenant(self.tenant_id) as connection:
            doomed = store.messages_to_erase(
                connection,
                chat_id,
                receipt.until,
                senders=self.senders,
                external_id=subject.external_id,
            )
        for ids in _batches(doomed):
            more = True
            while more:
                with self.database.tenant(self.tenant_id) as connection:
                    taken = derived.take_back_ahead(connection, self.tenant_id, chat_id, ids)
                    self._count(connection, edits.Erased(memories=taken.memories, queries=taken.queries))
                more = taken.more
                if more:
                    yield
            with self.database.tenant(self.tenant_id) as connection:
                chat = chats.lock_alone(connection, chat_id)
                if chat is None:
                    return
                found = verify.pick(connection, ids)
                self._bury(connection, chat_id, ids, None if subject.kind == "user" else receipt.until)
                erased = edits.erase(
                    connection, self.tenant_id, chat, ids, self.rules, trace_id=self.claim.trace_id
                )
                self._count(connection, erased)
            self.probes.keep(found)
            yield

    def _bury(self, connection: Connection, chat_id: str, ids: Sequence[int], until: datetime | None) -> None:
        """Suppress messages: only those sent after `until`, or all.

        A sender's clock may run ahead, and an edit of a user's message does not say whose it is.
        """
        if self.again:
            return
        key = suppression_list.ensure_key(connection, self.tenant_id)
        externals = store.external_ids(connection, ids, until)
        hashes = [suppression.hash_of(key, "message", chat_id, external) for external in externals]
        suppression_list.put(connection, self.tenant_id, "message", hashes, None)

    def _pruned(self, chat_id: str, names: Sequence[str]) -> Iterator[None]:
        """Split sessions anew whose messages were pruned, as their summaries may still quote them."""
        while True:
            with self.database.tenant(self.tenant_id) as connection:
                chat = chats.lock_alone(connection, chat_id)
                if chat is None:
                    return
                found = store.pruned_sessions_with(connection, chat_id, names, SESSIONS)
                ids = [session.id for session in found]
                taken = derived.take_back(connection, self.tenant_id, chat_id, session_ids=ids)
                summaries = store_changes.clear(connection, ids)
                for session in found:
                    session_ranges.split_anew(connection, self.tenant_id, session, chat.language, self.rules)
                keys = [f"session:{session_id}" for session_id in ids]
                jobs.fence(connection, self.tenant_id, keys)
                jobs.clear_errors(connection, self.tenant_id, keys)
                if found and session_ranges.close_sessions(
                    connection,
                    self.tenant_id,
                    chat_id,
                    self.rules.for_chat(chat),
                    trace_id=self.claim.trace_id,
                ):
                    self.follows.add("summarize")
                self._count(
                    connection,
                    edits.Erased(
                        sessions=len(found),
                        summaries=summaries,
                        memories=taken.memories,
                        queries=taken.queries,
                    ),
                )
            if not found:
                return
            yield

    def _chat(self, chat_id: str, receipt: Receipt) -> Iterator[None]:
        """Delete a chat's other data, and the chat itself if nobody has gone on talking there."""
        while True:
            with self.database.tenant(self.tenant_id) as connection:
                if chats.lock_alone(connection, chat_id) is None:
                    return
                store.drop_pending_of_chat(connection, chat_id, receipt.until)
                ids = store.old_sessions(connection, chat_id, receipt.until, BATCH)
                taken = derived.take_back(connection, self.tenant_id, chat_id, session_ids=ids)
                summaries = store_changes.clear(connection, ids)
                for session_id in ids:
                    store_changes.drop_session(connection, self.tenant_id, session_id)
                self._count(
                    connection,
                    edits.Erased(sessions=len(ids), summaries=summaries, memories=taken.memories),
                )
            if not ids:
                break
            yield
        for _ in self._memories(Subject(kind="chat", chat_id=chat_id), receipt):
            yield
        with self.database.tenant(self.tenant_id) as connection:
            # nobody may be storing a message there while the chat goes
            suppression_list.lock(connection, self.tenant_id, chat_id, alone=True)
            gone = store.delete_chat(connection, self.tenant_id, chat_id)
            if not gone:
                membership.unname(connection, chat_id)
            erasure.add_counts(connection, self.id, {"chats": gone})
        if gone:
            yield

    def _memories(self, subject: Subject, receipt: Receipt) -> Iterator[None]:
        while True:
            with self.database.tenant(self.tenant_id) as connection:
                gone = store.delete_memories(
                    connection,
                    self.tenant_id,
                    receipt.until,
                    senders=self.senders,
                    chat_id=subject.chat_id,
                    limit=BATCH,
                )
                if not self.again:
                    key = suppression_list.ensure_key(connection, self.tenant_id)
                    hashes = [suppression.hash_of(key, "memory", *names) for names in self._called(gone)]
                    suppression_list.put(connection, self.tenant_id, "memory", hashes, receipt.until)
                taken = derived.take_back_memories(connection, self.tenant_id, [row.id for row in gone])
                erasure.add_counts(
                    connection,
                    self.id,
                    {"memories": len(gone) + taken.memories, "queries": taken.queries},
                )
            if not gone:
                return
            yield

    def _called(self, gone: Sequence[Row[Any]]) -> Iterator[tuple[str, ...]]:
        """Yield the names of these memories, under each id of the same person."""
        for row in gone:
            for user_id in self.senders or [row.user_id]:
                yield suppression.memory_names(row.scope, user_id, row.agent_id, bytes(row.content_hash))

    def _count(self, connection: Connection, erased: edits.Erased) -> None:
        """Add to the receipt, in the transaction that deletes."""
        names = ("messages", "vectors", "sessions", "summaries", "memories", "queries", "jobs")
        erasure.add_counts(connection, self.id, {name: getattr(erased, name) for name in names})
        self.follows |= erased.follows


def _batches(doomed: Sequence[Row[Any]]) -> Iterator[list[int]]:
    """Yield the ids of messages `(id, chars)`, as many at a time as one transaction takes."""
    batch: list[int] = []
    chars = 0
    for row in doomed:
        if batch and (len(batch) >= BATCH or chars + row.chars > CHARS_AT_ONCE):
            yield batch
            batch, chars = [], 0
        batch.append(row.id)
        chars += row.chars
    if batch:
        yield batch
