"""Run one turn of a forgetting: delete step by step what is left (`forget_steps`), and verify at the end.

A turn may be killed at any point: the next one goes on with what is left.
"""

from collections.abc import Iterator
from functools import partial
from time import monotonic

from sqlalchemy import Connection

from pipeline.erasure.forget_steps import Deletion
from pipeline.ingest import chat_moves
from pipeline.ingest.policy import SessionPolicy
from pipeline.store.chats import chat_moves as store_chat_moves
from pipeline.store.connections import committed
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure as store
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.operations import counters
from schemas.kinds import LANGUAGE
from schemas.people.forgetting import Subject

MOVING_SECONDS = 1.0
"""Delay before a forgetting is tried again while a chat is being moved."""
DONE = {"removal": "chat_removed", "move": "chat_moved"}
"""Log events of receipts that are not for forgetting; no event names the subject."""
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
        # the kinds of jobs that follow
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
                jobs.finish(connection, [self.claim])
                return set()
            senders = known.pop("senders", None)
            names = known.pop("names", None)
            again = known.pop("again", False)
            into = known.pop("into", None)
            if into is None and store_chat_moves.is_moving(connection):
                # it would miss messages that are on their way from one chat to another
                jobs.finish(connection, [self.claim], again_in=MOVING_SECONDS)
                return set()
            if names is None:
                names = self._names(connection, senders)
            subject = Subject.model_validate(known)
            if subject.kind == "message":
                address = store_chat_moves.address(connection, *subject.names)
                subject = subject.model_copy(
                    update=dict(zip(("chat_id", "external_id"), address, strict=True))
                )
        deletion = Deletion(
            transaction=self.transaction,
            tenant_id=self.tenant_id,
            id=self.id,
            trace_id=self.claim.trace_id,
            policy=self.policy,
            subject=subject,
            receipt=receipt,
            senders=senders,
            again=again,
            follows=self.follows,
        )
        steps = deletion.steps(names) if into is None else self._move(subject, into)
        for _ in steps:
            if monotonic() - started > SECONDS_AT_ONCE:
                with self.transaction() as connection:
                    jobs.finish(connection, [self.claim], again_in=0)
                return self.follows | {"forget"}
        with self.transaction() as connection:
            kept_out = not again and into is None
            counts = deletion.sample.found_again(connection, subject, receipt) if kept_out else {}
            store.add_counts(connection, self.id, counts, done=True)
            counters.add(connection, self.tenant_id, {"forgotten": 1} if kept_out else {})
            done = store.get_receipt(connection, self.id)
            committed.tell(
                connection,
                DONE.get(receipt.kind, "forgotten"),
                tenant=self.tenant_id,
                receipt_id=self.id,
                kind=receipt.kind if kept_out else None,
                counts=done and done.counts,
                trace_id=self.claim.trace_id,
            )
            jobs.finish(connection, [self.claim])
        return self.follows

    def _names(self, connection: Connection, senders: list[str] | None) -> list[str]:
        """Look up and keep the person's names before their first message is deleted."""
        if senders is None:
            return []
        names = [*store.names_of(connection, senders), *senders]
        store.keep_names(connection, self.id, names)
        return names

    def _move(self, subject: Subject, into: str) -> Iterator[None]:
        chat_id = str(subject.chat_id)
        for summaries in chat_moves.steps(self.database, self.tenant_id, self.id, chat_id, into, self.policy):
            self.follows |= {"ingest", LANGUAGE.name} | ({"summarize", "extract"} if summaries else set())
            yield
