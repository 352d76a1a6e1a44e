"""Delete the data of a forgotten subject, step by step, and verify afterwards that it is gone.

Each step deletes something in its own transaction, so that the remaining data tells the next step what to do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.erasure.derived import Erased
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import suppression
from pipeline.store import api_keys, identities
from pipeline.store.chats import chats, membership
from pipeline.store.connections.transactions import batched
from pipeline.store.erasure import derived as derived_rows
from pipeline.store.erasure import erasure as store
from pipeline.store.erasure import retention
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.memories import entity_graph, learned
from pipeline.store.messages import edits
from pipeline.store.search import query_log
from pipeline.text.duplicates import fingerprint
from schemas.people import Receipt, Subject

SAMPLE = 20
SAMPLE_OF_A_BATCH = 2
MIN_CHARS = 20
"""Shorter texts are common: finding one again proves nothing."""


@dataclass(kw_only=True)
class DeletedSample:
    """A sample of what was deleted in one turn."""

    texts: list[str] = field(default_factory=list)
    vectors: list[Row[Any]] = field(default_factory=list)

    def keep(self, rows: Sequence[Row[Any]]) -> None:
        """Keep rows of `longest`, once their messages are gone."""
        for row in rows:
            if len(row.content) >= MIN_CHARS and len(self.texts) < SAMPLE:
                self.texts.append(row.content)
                if row.embedding is not None:
                    self.vectors.append(row)

    def found_again(self, connection: Connection, subject: Subject, receipt: Receipt) -> dict[str, int]:
        """Count how often deleted data is still found, for the receipt; somebody else may quote a text."""
        # a chat may contain the same text twice, with one of the messages forgotten
        vectors = [] if subject.kind == "message" else self.vectors
        return {
            "looked_for": len(self.texts),
            "found_again_texts": sum(derived_rows.count_text(connection, content) for content in self.texts),
            "found_again_vectors": sum(
                derived_rows.count_vector(
                    connection,
                    row.space_id,
                    row.size,
                    row.embedding,
                    chat_id=subject.chat_id,
                    until=receipt.until,
                )
                for row in vectors
            ),
        }


BATCH = 40
"""Messages, sessions or memories in one transaction, during which their chat accepts no messages."""
CHARS_AT_ONCE = 20_000
"""Characters of messages in one transaction: each word is looked for in the query log."""
SESSIONS_AT_ONCE = 20
"""Sessions split again in one transaction."""


@dataclass(frozen=True, kw_only=True)
class SubjectDeletion:
    """The deletion of one subject, and a sample of what was deleted, to be looked for at the end."""

    transaction: Callable[[], AbstractContextManager[Connection]]
    tenant_id: str
    # of the receipt
    id: int
    trace_id: str | None
    policy: SessionPolicy
    subject: Subject
    receipt: Receipt
    # every id of the person who is forgotten
    senders: Sequence[str] | None
    # whether deleted messages may be sent and stored again, as when a chat is removed
    again: bool
    # the kinds of jobs that follow, to which steps add
    follows: set[str]
    sample: DeletedSample = field(default_factory=DeletedSample)

    def steps(self, names: Sequence[str]) -> Iterator[None]:
        """Delete step by step; `names` are those of a forgotten person."""
        subject, receipt = self.subject, self.receipt
        whole = subject.kind in {"chat", "tenant"}
        with self.transaction() as connection:
            if subject.external_id is not None:
                edits.drop_pending(connection, str(subject.chat_id), [subject.external_id])
            # the suppression list keeps their later queries out
            if self.senders is not None:
                store.drop_pending_of_senders(connection, self.senders, receipt.until)
                queries = query_log.redact_askers(connection, self.senders, receipt.until)
                store.add_counts(connection, self.id, {"queries": queries})
            elif whole:
                queries = query_log.delete(connection, receipt.until, subject.chat_id)
                store.add_counts(connection, self.id, {"queries": queries})
            spoken_in = (
                [subject.chat_id] if subject.chat_id is not None else store.chats_of(connection, self.senders)
            )
        for chat_id in spoken_in:
            yield from self._messages(chat_id)
            if whole:
                yield from self._chat(chat_id)
        if self.senders is not None:
            with self.transaction() as connection:
                store.unname(connection, names)
                known_in = {*spoken_in, *membership.chats_of(connection, self.senders)}
                person = retention.PrunedPerson(self.senders, names, sorted(known_in))
                pruned_in = retention.chats_of_pruned(connection, person)
            for chat_id in pruned_in:
                yield from self._pruned(chat_id, person)
            yield from self._unlearned(None)
        if subject.kind != "message":
            yield from self._memories(subject.chat_id)
        if self.senders is not None:
            yield from self._identities(self.senders)
        if subject.kind == "tenant":
            with self.transaction() as connection:
                # blocks linking people meanwhile
                suppression_list.lock(connection, self.tenant_id, exclusive=True)
                store.empty_tenant(connection, self.tenant_id, receipt.until)

    def _messages(self, chat_id: str) -> Iterator[None]:
        with self.transaction() as connection:
            doomed = store.messages_to_erase(
                connection,
                chat_id,
                self.receipt.until,
                senders=self.senders,
                external_id=self.subject.external_id,
            )
        for batch in batched(doomed, BATCH, CHARS_AT_ONCE, lambda row: row.chars):
            ids = [row.id for row in batch]
            more = True
            while more:
                with self.transaction() as connection:
                    taken = derived.remove_ahead(connection, self.tenant_id, chat_id, ids)
                    self._count(connection, Erased(memories=taken.memories, queries=taken.queries))
                more = taken.more
                if more:
                    yield
            with self.transaction() as connection:
                chat = chats.lock_exclusively(connection, chat_id)
                if chat is None:
                    return
                longest = derived_rows.longest(connection, ids, SAMPLE_OF_A_BATCH)
                # A sender's clock may run ahead, and an edit of a user's message does not say whose it is.
                after = None if self.subject.kind == "user" else self.receipt.until
                self._suppress_messages(connection, chat_id, ids, after)
                erased = derived.erase_messages(
                    connection, self.tenant_id, chat, ids, self.policy, trace_id=self.trace_id
                )
                self._count(connection, erased)
            self.sample.keep(longest)
            yield

    def _suppress_messages(
        self, connection: Connection, chat_id: str, ids: Sequence[int], after: datetime | None
    ) -> None:
        """Put messages on the suppression list: all, or those dated later than `after`."""
        if self.again:
            return
        externals = store.external_ids(connection, ids, after)
        named: list[suppression.Named] = [("message", chat_id, external) for external in externals]
        suppression.put(connection, self.tenant_id, named, None)

    def _pruned(self, chat_id: str, person: retention.PrunedPerson) -> Iterator[None]:
        """Split sessions with pruned messages again, as their summaries may still quote them."""
        while True:
            with self.transaction() as connection:
                chat = chats.lock_exclusively(connection, chat_id)
                sessions = chat and retention.sessions_of_pruned(
                    connection, chat_id, person, SESSIONS_AT_ONCE
                )
                if not chat or not sessions:
                    return
                redone = derived.redo_sessions(
                    connection, self.tenant_id, chat, sessions, self.policy, trace_id=self.trace_id
                )
                self._count(connection, redone)
            yield

    def _chat(self, chat_id: str) -> Iterator[None]:
        """Delete a chat's other data, and the chat itself unless it has newer messages."""
        while True:
            with self.transaction() as connection:
                if chats.lock_exclusively(connection, chat_id) is None:
                    return
                store.drop_pending_of_chat(connection, chat_id, self.receipt.until)
                ids = store.old_sessions(connection, chat_id, self.receipt.until, BATCH)
                taken = derived.remove_derived(connection, self.tenant_id, chat_id, session_ids=ids)
                summaries = edits.clear(connection, ids)
                for session_id in ids:
                    edits.drop_session(connection, self.tenant_id, session_id)
                self._count(
                    connection, Erased(sessions=len(ids), summaries=summaries, memories=taken.memories)
                )
            if not ids:
                break
            yield
        yield from self._unlearned(chat_id)
        yield from self._memories(chat_id)
        with self.transaction() as connection:
            # blocks storing messages there meanwhile
            suppression_list.lock(connection, self.tenant_id, chat_id, exclusive=True)
            gone = store.delete_chat(connection, self.tenant_id, chat_id)
            if not gone:
                membership.unname(connection, chat_id)
            elif self.receipt.kind == "chat":
                api_keys.forget_chat(connection, chat_id)
            store.add_counts(connection, self.id, {"chats": gone})
        if gone:
            yield

    def _unlearned(self, chat_id: str | None) -> Iterator[None]:
        """Remove what was learned from a person or in a chat, also from messages that retention has removed."""
        while True:
            with self.transaction() as connection:
                if chat_id is not None:
                    said = learned.drop_evidence_of_chat(connection, chat_id, self.receipt.until, BATCH)
                else:
                    said = learned.drop_evidence_of_senders(
                        connection, self.senders or [], self.receipt.until, BATCH
                    )
                gone = derived.settle_memories(connection, self.tenant_id, said)
                taken = derived.remove_with_memories(connection, self.tenant_id, gone)
                counts = {"memories": len(gone) + taken.memories, "queries": taken.queries}
                store.add_counts(connection, self.id, counts)
            if not said:
                return
            yield

    def _memories(self, chat_id: str | None) -> Iterator[None]:
        """Delete the memories of a person, a chat or a tenant."""
        while True:
            with self.transaction() as connection:
                gone = store.delete_memories(
                    connection,
                    self.tenant_id,
                    self.receipt.until,
                    senders=self.senders,
                    chat_id=chat_id,
                    limit=BATCH,
                )
                if not self.again:
                    named = list(self._memory_names(gone))
                    suppression.put(connection, self.tenant_id, named, self.receipt.until)
                taken = derived.remove_with_memories(connection, self.tenant_id, [row.id for row in gone])
                counts = {"memories": len(gone) + taken.memories, "queries": taken.queries}
                store.add_counts(connection, self.id, counts)
            if not gone:
                return
            yield

    def _memory_names(self, gone: Sequence[Row[Any]]) -> Iterator[suppression.Named]:
        """Yield these memories' names in the suppression list, under each id of the same person.

        A promoted memory has its present name, and the one that it had as the person's.
        """
        for row in gone:
            present = (row.scope, row.user_id, row.agent_id)
            scope, agent_id = (row.scope, row.agent_id) if row.promoted_from is None else ("user", None)
            for owner in {present, *((scope, sender, agent_id) for sender in self.senders or ())}:
                yield "memory", *suppression.memory_names(*owner, fingerprint(row.content))

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
            membership.forget_changes(connection, senders)
            entity_graph.drop_people(connection, senders)
            store.add_counts(connection, self.id, {"links": identities.forget(connection, senders)})

    def _count(self, connection: Connection, erased: Erased) -> None:
        """Add counts to the receipt, in the transaction that deletes."""
        counts = {name: count for name, count in vars(erased).items() if name != "follows"}
        store.add_counts(connection, self.id, counts)
        self.follows.update(erased.follows)
