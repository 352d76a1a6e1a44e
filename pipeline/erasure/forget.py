"""Forget a message, a user, a chat or a tenant for good, with a receipt that says how much but not whom.

`start` commits the suppression while nothing is being accepted, and enqueues a job; from then on nothing of the subject
is stored again. The job (`Forgetting`) deletes what was stored before, and data derived from it, in small transactions;
killed at any point, it resumes with what is left.

A turn may be killed at any point: the next one goes on with what is left.

An entry of a suppression list names nobody, so every stored subject is hashed with the list's key and looked up. That
finds what was forgotten since the backup, and API keys that have ended since, and nothing else.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.erasure.forget_steps import SubjectDeletion
from pipeline.ingest import chat_moves, numbers
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.people import api_keys, suppression
from pipeline.store import identities
from pipeline.store.chats import chat_moves as store_chat_moves
from pipeline.store.chats import chats
from pipeline.store.chats.chats import Chat
from pipeline.store.connections import transactions
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure as store
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import job_admin, jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.numbers import Change
from pipeline.store.operations import counters
from schemas.errors import InvalidInput, NotFound
from schemas.kinds import LANGUAGE
from schemas.people import Forgotten, ForgottenEntry, Receipt, Subject
from schemas.sessions import Session
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
            names += [(chat,) for chat in store_chat_moves.former(connection, subject.chat_id)]
            numbers.forget_chat(connection, tenant_id, subject.chat_id)
        if subject.sender_id is not None:
            known["senders"] = identities.ids_of(connection, subject.sender_id)
            names = [(sender,) for sender in known["senders"]]
            numbers.forget(connection, tenant_id, known["senders"])
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
    if gone := job_admin.forget_payloads(connection, list(zip(*names, strict=True))):
        store.add_counts(connection, receipt_id, {"payloads": gone})
    jobs.enqueue(connection, tenant_id, "forget", [str(receipt_id)], trace_id=trace_id)


def _present(connection: Connection, tenant_id: str, subject: Subject) -> Subject:
    """Return the message by its present name: its chat may have another id."""
    chat_id, external_id = store_chat_moves.address(connection, subject.names[0], subject.names[1])
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
        raise NotFound(f"there is no receipt {receipt_id}")
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
            moving = known.pop("chats", None)
            times = [datetime.fromisoformat(known.pop(name)) for name in ("until", "came") if name in known]
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
        deletion = SubjectDeletion(
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
        steps = deletion.steps(names) if into is None else self._move(subject, into, moving, times)
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
            transactions.log_once_committed(
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

    def _move(
        self, subject: Subject, into: str, moving: dict[str, str] | None, times: Sequence[datetime]
    ) -> Iterator[None]:
        chat_id = str(subject.chat_id)
        steps = partial(chat_moves.steps, chat_id=chat_id, into=into)
        if moving is not None:
            until, came = times
            parting = chat_moves.Parting(until=until, came=came, redo=self._redo)
            own = Change(chat_id, until, into)
            steps = partial(numbers.steps, own=own, moving=moving, parting=parting)
        for summaries in steps(self.database, self.tenant_id, self.id, policy=self.policy):
            self.follows |= {"ingest", LANGUAGE.name} | ({"summarize", "extract"} if summaries else set())
            yield

    def _redo(
        self, connection: Connection, chat: Chat, sessions: Sequence[Session], gone: Sequence[Row[Any]]
    ) -> None:
        derived.redo_sessions(connection, self.tenant_id, chat, sessions, self.policy, gone=gone)


@dataclass(frozen=True, kw_only=True)
class ForgottenAgain:
    """The result of applying a suppression list."""

    # entries that are new to this database
    taken_over: int
    # entries under another key that match nothing stored here: they cannot be taken over
    lost: int
    # a forgetting for each matching subject that is stored here
    receipts: list[Receipt]


def suppressed(database: Database, tenant_id: str) -> Forgotten | None:
    """Return a tenant's suppression list; None if nothing was ever forgotten."""
    with database.tenant(tenant_id) as connection:
        key = suppression_list.key(connection)
        if key is None:
            return None
        entries = [
            ForgottenEntry.model_validate({"hash": digest.hex(), "kind": kind, "until": until})
            for digest, kind, until in suppression_list.entries(connection)
        ]
    return Forgotten(tenant=tenant_id, key=key.hex(), entries=entries)


def forget_again(database: Database, forgotten: Forgotten) -> ForgottenAgain:
    """Apply a suppression list, and begin to forget the stored subjects on it. Raises `DatabaseUnavailable`."""
    key = bytes.fromhex(forgotten.key)
    with database.tenant(forgotten.tenant) as connection:
        suppression_list.lock(connection, forgotten.tenant, exclusive=True)
        same_key = suppression_list.put_key(connection, forgotten.tenant, key) == key
        listed = {bytes.fromhex(entry.hash): entry for entry in forgotten.entries}
        known = {digest: row.until for digest, row in suppression_list.listed(connection, listed).items()}
        new = {
            digest: entry
            for digest, entry in listed.items()
            if not (same_key and digest in known and suppression.reaches(known[digest], entry.until))
        }
        alike = defaultdict(list)
        for digest, entry in new.items() if same_key else ():
            alike[entry.kind, entry.until].append(digest)
        for (kind, until), digests in alike.items():
            suppression_list.put(connection, forgotten.tenant, kind, digests, until)
        kinds = {entry.kind for entry in new.values()}
        keys = api_keys.end_again(connection, key, {digest: entry.until for digest, entry in new.items()})
        subjects = {
            digest: subject
            for subject in _stored(connection, kinds)
            if (digest := suppression.hash_of(key, subject.kind, *subject.names)) in new
        }
    receipts = [
        repeat(database, forgotten.tenant, subject, new[digest].until) for digest, subject in subjects.items()
    ]
    lost = 0 if same_key else len(new) - len(subjects) - keys
    return ForgottenAgain(taken_over=len(new) - lost, lost=lost, receipts=receipts)


def _stored(connection: Connection, kinds: Collection[str]) -> Iterator[Subject]:
    """Yield every stored subject of these kinds."""
    if "tenant" in kinds:
        yield Subject(kind="tenant")
    if "chat" in kinds:
        yield from (Subject(kind="chat", chat_id=chat_id) for chat_id in store.chat_ids(connection))
    if "user" in kinds:
        yield from (Subject(kind="user", sender_id=user) for user in identities.of_all(connection) if user)
    if "message" in kinds:
        for chat_id, external_id in store.names_of_messages(connection):
            yield Subject(kind="message", chat_id=chat_id, external_id=external_id)
