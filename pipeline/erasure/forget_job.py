"""Run one turn of a forgetting: delete step by step what is left, and verify at the end.

Each step is a transaction of its own that takes something away, so that a turn may be killed at any point and the
next one goes on with what is left.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.erasure import derived, erase, unlearn, verify
from pipeline.erasure.erase import Erased
from pipeline.ingest import chat_moves
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.batches import batched
from pipeline.jobs.runner import Claim
from pipeline.people import suppression
from pipeline.store import chat_moves as store_chat_moves
from pipeline.store import chats, counters, edits, entity_graph, identities, membership, query_log
from pipeline.store import erasure as store
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.forgetting import Receipt, Subject
from schemas.kinds import LANGUAGE

BATCH = 40
"""Messages, sessions or memories in one transaction, during which their chat's accepting waits."""
CHARS_AT_ONCE = 20_000
"""Characters of messages in one transaction: each word is looked for in the query log."""
SESSIONS = 20
"""Sessions split again in one transaction."""
MOVING_SECONDS = 1.0
"""How soon to look again whether a chat that is being moved has arrived."""
SECONDS_AT_ONCE = 40.0
"""After this the job is released and claimed anew: well under a lease and a worker's time limit."""


class Forgetting:
    """One turn of one forgetting, which `forget.start` began."""

    def __init__(self, database: Database, tenant_id: str, claim: Claim, policy: SessionPolicy) -> None:
        self.database = database
        self.transaction = partial(database.tenant, tenant_id)
        self.tenant_id = tenant_id
        self.claim = claim
        self.policy = policy
        self.id = int(claim.key)
        # every id of the person who is forgotten
        self.senders: list[str] | None = None
        # of a chat that is removed: what is sent again is stored again
        self.again = False
        self.sample = verify.DeletedSample()
        self.follows: set[str] = set()

    def run(self) -> set[str]:
        """Delete until nothing is left or the time is up, and return the kinds of jobs that follow."""
        started = monotonic()
        with self.transaction() as connection:
            known, receipt = (
                store.receipt_subject(connection, self.id),
                store.get_receipt(connection, self.id),
            )
            if known is None or receipt is None:
                runner.finish(connection, [self.claim])
                return set()
            self.senders = known.pop("senders", None)
            names = known.pop("names", None)
            self.again = known.pop("again", False)
            into = known.pop("into", None)
            if into is None and store_chat_moves.under_way(connection):
                # it would look for what is to go in one chat while it is on its way to another
                runner.finish(connection, [self.claim], again_in=MOVING_SECONDS)
                return set()
            if names is None:
                names = self._names(connection)
            subject = Subject.model_validate(known)
            if subject.kind == "message":
                address = store_chat_moves.address(connection, *subject.names)
                subject = subject.model_copy(
                    update=dict(zip(("chat_id", "external_id"), address, strict=True))
                )
        steps = self._steps(subject, receipt, names) if into is None else self._move(subject, into)
        for _ in steps:
            if monotonic() - started > SECONDS_AT_ONCE:
                with self.transaction() as connection:
                    runner.finish(connection, [self.claim], again_in=0)
                return self.follows | {"forget"}
        with self.transaction() as connection:
            kept_out = not self.again and into is None
            found = self.sample.found_again(connection, subject, receipt) if kept_out else {}
            store.add_counts(connection, self.id, found, done=True)
            counters.add(connection, self.tenant_id, {"forgotten": 1} if kept_out else {})
            runner.finish(connection, [self.claim])
        return self.follows

    def _names(self, connection: Connection) -> list[str]:
        """Look up and keep the person's names before their first message goes."""
        if self.senders is None:
            return []
        names = [*store.names_of(connection, self.senders), *self.senders]
        store.keep_names(connection, self.id, names)
        return names

    def _move(self, subject: Subject, into: str) -> Iterator[None]:
        chat_id = str(subject.chat_id)
        for summaries in chat_moves.steps(self.database, self.tenant_id, self.id, chat_id, into, self.policy):
            self.follows |= {"ingest", LANGUAGE.name} | ({"summarize", "extract"} if summaries else set())
            yield

    def _steps(self, subject: Subject, receipt: Receipt, names: Sequence[str]) -> Iterator[None]:
        """Delete step by step, each in a transaction of its own that takes something away."""
        whole = subject.kind in {"chat", "tenant"}
        with self.transaction() as connection:
            if subject.external_id is not None:
                edits.drop_pending(connection, str(subject.chat_id), [subject.external_id])
            # the suppression list keeps more of theirs from being recorded
            if self.senders is not None:
                queries = query_log.redact_askers(connection, self.senders, receipt.until)
                store.add_counts(connection, self.id, {"queries": queries})
            elif whole:
                queries = query_log.delete(connection, receipt.until, subject.chat_id)
                store.add_counts(connection, self.id, {"queries": queries})
            spoken_in = (
                [subject.chat_id] if subject.chat_id is not None else store.chats_of(connection, self.senders)
            )
        for chat_id in spoken_in:
            yield from self._messages(chat_id, subject, receipt)
            if whole:
                yield from self._chat(chat_id, receipt)
        if subject.kind == "user":
            with self.transaction() as connection:
                store.unname_merged(connection, names)
                pruned_in = store.chats_with_pruned_sessions(connection, names)
            for chat_id in pruned_in:
                yield from self._pruned(chat_id, names)
            yield from self._unlearned(None, receipt)
        if subject.kind != "message":
            yield from self._memories(subject.chat_id, receipt)
        if self.senders is not None:
            yield from self._identities(self.senders)
        if subject.kind == "tenant":
            with self.transaction() as connection:
                # nobody may be linking people while those go
                suppression_list.lock(connection, self.tenant_id, exclusive=True)
                store.empty_tenant(connection, self.tenant_id, receipt.until)

    def _messages(self, chat_id: str, subject: Subject, receipt: Receipt) -> Iterator[None]:
        with self.transaction() as connection:
            doomed = store.messages_to_erase(
                connection, chat_id, receipt.until, senders=self.senders, external_id=subject.external_id
            )
        for batch in batched(doomed, BATCH, CHARS_AT_ONCE, lambda row: row.chars):
            ids = [row.id for row in batch]
            more = True
            while more:
                with self.transaction() as connection:
                    taken = derived.take_back_ahead(connection, self.tenant_id, chat_id, ids)
                    self._count(connection, Erased(memories=taken.memories, queries=taken.queries))
                more = taken.more
                if more:
                    yield
            with self.transaction() as connection:
                chat = chats.lock_exclusively(connection, chat_id)
                if chat is None:
                    return
                found = verify.pick(connection, ids)
                # A sender's clock may run ahead, and an edit of a user's message does not say whose it is.
                after = None if subject.kind == "user" else receipt.until
                self._suppress_messages(connection, chat_id, ids, after)
                erased = erase.erase_messages(
                    connection, self.tenant_id, chat, ids, self.policy, trace_id=self.claim.trace_id
                )
                self._count(connection, erased)
            self.sample.keep(found)
            yield

    def _suppress_messages(
        self, connection: Connection, chat_id: str, ids: Sequence[int], after: datetime | None
    ) -> None:
        """Put messages on the suppression list: all, or those that say that they were sent later."""
        if self.again:
            return
        key = suppression_list.ensure_key(connection, self.tenant_id)
        externals = store.external_ids(connection, ids, after)
        hashes = [suppression.hash_of(key, "message", chat_id, external) for external in externals]
        suppression_list.put(connection, self.tenant_id, "message", hashes, None)

    def _pruned(self, chat_id: str, names: Sequence[str]) -> Iterator[None]:
        """Split sessions anew whose messages were pruned, as their summaries may still quote them."""
        while True:
            with self.transaction() as connection:
                chat = chats.lock_exclusively(connection, chat_id)
                found = chat and store.pruned_sessions_with(connection, chat_id, names, SESSIONS)
                if not chat or not found:
                    return
                redone = erase.redo_sessions(
                    connection, self.tenant_id, chat, found, self.policy, trace_id=self.claim.trace_id
                )
                self._count(connection, redone)
            yield

    def _chat(self, chat_id: str, receipt: Receipt) -> Iterator[None]:
        """Delete a chat's other data, and the chat itself if nobody has gone on talking there."""
        while True:
            with self.transaction() as connection:
                if chats.lock_exclusively(connection, chat_id) is None:
                    return
                store.drop_pending_of_chat(connection, chat_id, receipt.until)
                ids = store.old_sessions(connection, chat_id, receipt.until, BATCH)
                taken = derived.take_back(connection, self.tenant_id, chat_id, session_ids=ids)
                summaries = edits.clear(connection, ids)
                for session_id in ids:
                    edits.drop_session(connection, self.tenant_id, session_id)
                self._count(
                    connection, Erased(sessions=len(ids), summaries=summaries, memories=taken.memories)
                )
            if not ids:
                break
            yield
        yield from self._unlearned(chat_id, receipt)
        yield from self._memories(chat_id, receipt)
        with self.transaction() as connection:
            # nobody may be storing a message there while the chat goes
            suppression_list.lock(connection, self.tenant_id, chat_id, exclusive=True)
            gone = store.delete_chat(connection, self.tenant_id, chat_id)
            if not gone:
                membership.unname(connection, chat_id)
            store.add_counts(connection, self.id, {"chats": gone})
        if gone:
            yield

    def _unlearned(self, chat_id: str | None, receipt: Receipt) -> Iterator[None]:
        """Remove what was learned from a person or in a chat, also from messages that retention has removed."""
        more = True
        while more:
            with self.transaction() as connection:
                if chat_id is not None:
                    gone, more = unlearn.unlearn_chat(
                        connection, self.tenant_id, chat_id, receipt.until, BATCH
                    )
                else:
                    gone, more = unlearn.unlearn_senders(
                        connection, self.tenant_id, self.senders or [], receipt.until, BATCH
                    )
                taken = derived.take_back_memories(connection, self.tenant_id, gone)
                counts = {"memories": len(gone) + taken.memories, "queries": taken.queries}
                store.add_counts(connection, self.id, counts)
            if more:
                yield

    def _memories(self, chat_id: str | None, receipt: Receipt) -> Iterator[None]:
        """Delete the memories of a person, a chat or a tenant."""
        while True:
            with self.transaction() as connection:
                gone = store.delete_memories(
                    connection,
                    self.tenant_id,
                    receipt.until,
                    senders=self.senders,
                    chat_id=chat_id,
                    limit=BATCH,
                )
                if not self.again:
                    key = suppression_list.ensure_key(connection, self.tenant_id)
                    hashes = [
                        suppression.hash_of(key, "memory", *names) for names in self._memory_names(gone)
                    ]
                    suppression_list.put(connection, self.tenant_id, "memory", hashes, receipt.until)
                taken = derived.take_back_memories(connection, self.tenant_id, [row.id for row in gone])
                counts = {"memories": len(gone) + taken.memories, "queries": taken.queries}
                store.add_counts(connection, self.id, counts)
            if not gone:
                return
            yield

    def _memory_names(self, gone: Sequence[Row[Any]]) -> Iterator[tuple[str, ...]]:
        """Yield these memories' names in the suppression list, under each id of the same person."""
        for row in gone:
            for user_id in self.senders or [row.user_id]:
                yield suppression.memory_names(row.scope, user_id, row.agent_id, bytes(row.content_hash))

    def _identities(self, senders: Sequence[str]) -> Iterator[None]:
        """Delete a person's names among the members of chats, in the entity graph, and the links between their ids."""
        with self.transaction() as connection:
            named_in = membership.chats_to_unname(connection, senders)
        for chat_id in named_in:
            with self.transaction() as connection:
                suppression_list.lock(connection, self.tenant_id, chat_id, exclusive=True)
                membership.unname(connection, chat_id, senders)
            yield
        with self.transaction() as connection:
            suppression_list.lock(connection, self.tenant_id, exclusive=True)
            entity_graph.drop_people(connection, senders)
            store.add_counts(connection, self.id, {"links": identities.forget(connection, senders)})

    def _count(self, connection: Connection, erased: Erased) -> None:
        """Add to the receipt, in the transaction that deletes."""
        counts = {name: count for name, count in vars(erased).items() if name != "follows"}
        store.add_counts(connection, self.id, counts)
        self.follows |= erased.follows
