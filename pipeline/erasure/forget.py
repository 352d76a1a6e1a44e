"""Forget a message, a user, a chat or a tenant for good, with a receipt that says how much but not whom.

`start` commits the suppression while nothing is being accepted, and enqueues a job; from then on nothing of the subject
is stored again. The job (`forget_job`) deletes what was stored before, and data derived from it, in small transactions;
killed at any point, it resumes with what is left.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from pipeline.erasure.forget_job import Forgetting
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.people import suppression
from pipeline.store.chats import chat_moves, chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure as store
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs, quarantine
from pipeline.store.jobs.jobs import Claim
from pipeline.store.people import identities
from schemas.errors import InvalidInput, NotFound
from schemas.people.forgetting import Receipt, Subject
from schemas.settings import Settings

POLL_SECONDS = 0.5
"""Pause between checks whether a worker has finished a job."""


def start(database: Database, tenant_id: str, subject: Subject, *, trace_id: str | None = None) -> Receipt:
    """Put the subject on the suppression list and enqueue its deletion; from now on nothing of it comes back.

    Raises `DatabaseUnavailable`; then nothing was done.
    """
    known: dict[str, Any] = subject.model_dump(exclude_none=True, exclude={"confirm"})
    requested = subject.names
    names = [requested]
    with database.tenant(tenant_id) as connection:
        # blocks storing meanwhile: in every chat for a user or a tenant, else in this chat
        suppression_list.lock(connection, tenant_id, subject.chat_id, exclusive=True)
        if subject.kind == "message":
            subject = _present(connection, tenant_id, subject)
            known |= subject.model_dump(include={"chat_id", "external_id"})
            names = [subject.names]
        elif subject.chat_id is not None:
            chats.require_unmoved(chats.get(connection, subject.chat_id))
            # also under the ids that the chat had before
            names += [(chat,) for chat in chat_moves.former(connection, subject.chat_id)]
        if subject.sender_id is not None:
            known["senders"] = identities.ids_of(connection, subject.sender_id)
            names = [(sender,) for sender in known["senders"]]
        (digest,) = suppression.entries(connection, tenant_id, (subject.kind, *subject.names))
        until = chats.clock(connection)
        named: list[suppression.Named] = [(subject.kind, *name) for name in names]
        suppression.put(connection, tenant_id, named, None if subject.kind == "message" else until)
        receipt_id = store.insert_receipt(connection, tenant_id, subject.kind, known, digest, until)
        _enqueue(connection, tenant_id, receipt_id, {requested, *names}, trace_id)
    return get(database, tenant_id, receipt_id)


def repeat(database: Database, tenant_id: str, subject: Subject, until: datetime | None) -> Receipt:
    """Repeat a forgetting from another database, up to `until` (None: for good), under this one id of a person only."""
    known: dict[str, Any] = subject.model_dump(exclude_none=True)
    if subject.sender_id is not None:
        known["senders"] = [subject.sender_id]
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, exclusive=True)
        (digest,) = suppression.put(connection, tenant_id, [(subject.kind, *subject.names)], until)
        at = until or chats.clock(connection)
        receipt_id = store.insert_receipt(connection, tenant_id, subject.kind, known, digest, at)
        _enqueue(connection, tenant_id, receipt_id, [subject.names], None)
    return get(database, tenant_id, receipt_id)


def _enqueue(
    connection: Connection,
    tenant_id: str,
    receipt_id: int,
    names: Iterable[tuple[str, ...]],
    trace_id: str | None,
) -> None:
    """Delete the refused payloads that mention the subject by one of its names, and enqueue the job."""
    if gone := quarantine.forget_payloads(connection, list(zip(*names, strict=True))):
        store.add_counts(connection, receipt_id, {"payloads": gone})
    jobs.enqueue(connection, tenant_id, "forget", [str(receipt_id)], trace_id=trace_id)


def _present(connection: Connection, tenant_id: str, subject: Subject) -> Subject:
    """Return the message by its present name: its chat may have another id."""
    chat_id, external_id = chat_moves.address(connection, subject.names[0], subject.names[1])
    if chat_id != subject.chat_id:
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
    return subject.model_copy(update={"chat_id": chat_id, "external_id": external_id})


def remove(database: Database, tenant_id: str, chat_id: str, *, trace_id: str | None = None) -> Receipt:
    """Enqueue the removal of a chat and all derived from it, without suppression: it may be imported again.

    Whatever was forgotten in it before stays forgotten. Raises `DatabaseUnavailable`; then nothing was done.
    """
    known = {"kind": "chat", "chat_id": chat_id, "again": True}
    with database.tenant(tenant_id) as connection:
        # waits for messages being accepted there, which are removed, too
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
        chats.require_unmoved(chats.get(connection, chat_id))
        (digest,) = suppression.entries(connection, tenant_id, ("chat", chat_id))
        until = chats.clock(connection)
        receipt_id = store.insert_receipt(connection, tenant_id, "removal", known, digest, until)
        _enqueue(connection, tenant_id, receipt_id, [(chat_id,)], trace_id)
    return get(database, tenant_id, receipt_id)


def check_confirmed(tenant_id: str, subject: Subject) -> None:
    """Refuse to forget a tenant whose name was not repeated. Raises `InvalidInput`."""
    if subject.kind == "tenant" and subject.confirm != tenant_id:
        raise InvalidInput(
            f"confirm: to forget a tenant with all that it has, say its name: {tenant_id}", field="confirm"
        )


def get(database: Database, tenant_id: str, receipt_id: int) -> Receipt:
    """Return a receipt. Raises `NotFound`."""
    with database.tenant(tenant_id) as connection:
        receipt = store.get_receipt(connection, receipt_id)
    if receipt is None:
        raise NotFound(f"there is no receipt {receipt_id}: see `backscroll forget receipts`")
    return receipt


def given_up(database: Database, tenant_id: str, receipt_id: int) -> str | None:
    """Return why a forgetting was given up until an operator replays it; None if it is done or pending.

    Raises `NotFound`.
    """
    with database.tenant(tenant_id) as connection:
        state, error = jobs.state(connection, tenant_id, "forget", str(receipt_id))
    # read second, so that a job finished in between does not count as given up
    if state == "pending" or get(database, tenant_id, receipt_id).finished_at is not None:
        return None
    return error or "the job was dropped"


def finish(
    database: Database, tenant_id: str, receipt: Receipt, settings: Settings
) -> tuple[Receipt, str | None]:
    """Run a receipt's job, or wait for a worker that does; return the receipt, and why it was given up (or None)."""
    handler = forgetter(database, SessionPolicy.of(settings))
    policy = runner.Policy(
        batch=1, lease_seconds=settings.lease_seconds, max_attempts=settings.job_max_attempts
    )
    reason = None
    while receipt.finished_at is None and reason is None:
        claimed = runner.run(database, "forget", handler, policy).claimed
        reason = given_up(database, tenant_id, receipt.id)
        receipt = get(database, tenant_id, receipt.id)
        if receipt.finished_at is None and reason is None and not claimed:
            time.sleep(POLL_SECONDS)
    return receipt, reason


def plan(database: Database, tenant_id: str, subject: Subject) -> dict[str, int]:
    """Count the messages, chats, memories and queries that would be deleted, without deleting any."""
    with database.tenant(tenant_id) as connection:
        row = store.plan(
            connection,
            chat_id=subject.chat_id,
            senders=None if subject.sender_id is None else identities.ids_of(connection, subject.sender_id),
            external_id=subject.external_id,
        )
    return dict(row._mapping)


def forgetter(database: Database, policy: SessionPolicy) -> runner.Handler:
    """Make the handler of `forget` jobs: each claim is a receipt."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        turns = [Forgetting(database, tenant_id, claim, policy).run() for claim in claims]
        return set[str]().union(*turns)

    return handle
