"""A number that moved on belongs to nobody's past: what its former owner said goes with them, under their new id.

The time of the change decides, in whatever order events come: up to then a number is its former owner's, and what is
said under it later is somebody else's, in a chat of their own. All but messages is renamed at once; a job moves those,
and until it is done nothing of the number's chats is shown.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from pipeline.ingest import chat_moves
from pipeline.ingest.chat_moves import Parting
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import suppression
from pipeline.store import identities
from pipeline.store import numbers as store
from pipeline.store.chats import chat_moves as store_moves
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.numbers import Change
from schemas.messages import MessageIn

Changes = Mapping[str, Sequence[Change]]


def _next(known: Changes, ids: Collection[str], at: datetime, since: datetime | None) -> Change | None:
    """Return the first change after `since` of one of these ids, whose owner at that time had it until then."""
    later = (c for i in ids for c in known.get(i, ()) if c.until >= at and (since is None or c.until > since))
    return min(later, key=lambda change: change.until, default=None)


def present_id(known: Changes, any_id: str, at: datetime, since: datetime | None = None) -> str:
    """Return the present id of whoever had one at a time: a person's, or that of a direct chat with them.

    >>> monday, friday = datetime(2026, 3, 2), datetime(2026, 3, 6)
    >>> known = {"app:1": [Change("app:1", monday, "app:2")], "app:2": [Change("app:2", friday, "app:3")]}
    >>> present_id(known, "app:1@shop", monday), present_id(known, "app:1", friday)
    ('app:3@shop', 'app:1')
    """
    number, account = store.of_chat(any_id)
    while change := _next(known, [number], at, since):
        number, since = change.new_id, change.until
    return number + account


def present_ids(connection: Connection, ids: Sequence[str], at: datetime | None) -> list[str]:
    """Return the present ids of those who had these at a time; without a time they are as they are."""
    known = store.changes(connection, [store.of_chat(any_id)[0] for any_id in ids]) if at else {}
    return [present_id(known, any_id, at) if at else any_id for any_id in ids]


@dataclass(frozen=True)
class Owned:
    """Messages by the chat that they belong to, with their senders' present ids, and how many are kept out."""

    parts: dict[str, list[MessageIn]]
    kept_out: int


def by_owner(
    connection: Connection, key: bytes | None, chat_id: str, received: Sequence[MessageIn]
) -> Owned | None:
    """Sort messages that were sent to a chat by the chat that they belong to; None if that is this one for all.

    Those forgotten under an id of then are kept out, and those that the job has not moved yet are left out.
    """
    known = store.changes(connection, {store.of_chat(chat_id)[0], *(m.sender_id for m in received)})
    if not known:
        return None
    parts: dict[str, list[MessageIn]] = defaultdict(list)
    changed = kept_out = 0
    for message in received:
        chat, sent, since = chat_id, message, None
        while change := _next(known, {store.of_chat(chat)[0], sent.sender_id}, sent.sent_at, since):
            changed += 1
            if store_moves.still_there(connection, chat, [sent.external_id]):
                break
            if suppression.admit(connection, key, chat, [sent]).kept_out:
                kept_out += 1
                break
            number, account = store.of_chat(chat)
            chat = change.new_id + account if number == change.id else chat
            if sent.sender_id == change.id:
                sent = sent.model_copy(update={"sender_id": change.new_id})
            since = change.until
        else:
            parts[chat].append(sent)
    return Owned(parts, kept_out) if changed else None


def change(
    database: Database,
    tenant_id: str,
    number: str,
    to: str,
    at: datetime | None,
    *,
    trace_id: str | None = None,
) -> bool:
    """Note that a person's number moved on at a time (None: now), and tell whether a job moves what they said.

    A repeated change does nothing, nor does one of a person who was forgotten since. Raises `Busy`,
    `DatabaseUnavailable`; then nothing was done.
    """
    with database.tenant(tenant_id) as connection:
        # blocks storing and forgetting meanwhile
        suppression_list.lock(connection, tenant_id, exclusive=True)
        # the platform may name them by a second id, which changes with the number behind it
        shown = identities.shown_with(connection, number)
        number = number if shown is None else shown.user_id
        until = at or chats.clock(connection)
        known = store.changes(connection, [number, to])
        if number == to or any(
            c.new_id == to and (at is None or c.until == until) for c in known.get(number, ())
        ):
            return False
        if suppression.is_kept_out(connection, until, ("user", number), ("user", to), ("tenant",)):
            return False
        chats.ensure_tenant(connection, tenant_id)
        store.put(connection, tenant_id, Change(number, until, to))
        # where their data are now, and where they go, if other changes came before this one
        own = Change(
            present_id(known, number, until + timedelta.resolution),
            until,
            present_id(known, to, until, since=until),
        )
        chat_moves.require_idle(connection, sorted({number, to, own.id, own.new_id}))
        if own.id == own.new_id:
            return False
        moving = dict(
            zip(*(chats.direct_with(connection, any_id) for any_id in (own.id, own.new_id)), strict=True)
        )
        came = store.successor_came(connection, own, moving)
        _follow(connection, tenant_id, own, came)
        for chat_id, into in list(moving.items()):
            if (target := _begin(connection, tenant_id, chat_id, into, own)) is None:
                del moving[chat_id]
            else:
                moving[chat_id] = target
        (digest,) = suppression.entries(connection, tenant_id, ("chat", own.id))
        times = {"until": until.isoformat(), "came": came.isoformat()}
        subject = {"kind": "chat", "chat_id": own.id, "into": own.new_id, "chats": moving, **times}
        receipt = erasure.insert_receipt(connection, tenant_id, "move", subject, digest, until)
        jobs.enqueue(connection, tenant_id, "forget", [str(receipt)], trace_id=trace_id)
    return True


def _follow(connection: Connection, tenant_id: str, own: Change, came: datetime) -> None:
    """Give all that is known of the former owner but their messages to their new id, with their links."""
    links = store.links_before(connection, own, came)
    store.rename(connection, own, came)
    user = identities.user_of(connection, own.new_id)
    if others := [
        link.sender_id for link in links if link.user_id == own.id and link.sender_id != own.new_id
    ]:
        identities.move(connection, tenant_id, others, user, own.until)
    if user == own.id:
        identities.unlink(connection, own.new_id)
    for link in links:
        if link.sender_id == own.id:
            if user == own.new_id != link.user_id:
                moving = [i for i in identities.ids_of(connection, user) if i != link.user_id]
                identities.move(connection, tenant_id, moving, link.user_id)
            identities.unlink(connection, own.id)
    if suppression.unremembered(connection, [own.id]):
        suppression.put_unremembered(connection, tenant_id, identities.ids_of(connection, own.new_id))


def _begin(connection: Connection, tenant_id: str, chat_id: str, into: str, own: Change) -> str | None:
    """Begin to empty a direct chat into another one, created if missing; return that one, None if nothing is moved."""
    chat, target = chats.get(connection, chat_id), chats.get(connection, into)
    if chat is None:
        return None
    if target is not None and target.moved_to is not None:
        into = target.moved_to
        if into == chat_id:
            into = target.chat_id
            store.point(connection, into, None)
        target = chats.get(connection, into)
    if target is None:
        chat_moves.create_like(connection, tenant_id, chat, into)
    if chat.moved_to is not None:
        # somebody has moved it into another chat, which the new id names from now on
        if target is None:
            store_moves.redirect(connection, into, chat.moved_to)
        erasure.delete_chat(connection, tenant_id, chat_id)
        return None
    person = identities.user_of(connection, own.new_id)
    for former in store_moves.former(connection, chat_id):
        if identities.user_of(connection, store.of_chat(former)[0]) == person:
            store.point(connection, former, into)
    store.begin_to_empty(connection, chat_id, into, own.until)
    return into


def steps(
    database: Database,
    tenant_id: str,
    receipt_id: int,
    own: Change,
    moving: Mapping[str, str],
    policy: SessionPolicy,
    parting: Parting,
) -> Iterator[bool]:
    """Move what a person said in steps, each in its own transaction; yield after each whether summaries follow."""
    for chat_id, into in moving.items():
        yield from chat_moves.steps(database, tenant_id, receipt_id, chat_id, into, policy, parting)
        with database.tenant(tenant_id) as connection:
            suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
            if not erasure.delete_chat(connection, tenant_id, chat_id):
                store.show_again(connection, chat_id)
    more = chat_moves.MESSAGES_AT_ONCE
    while more == chat_moves.MESSAGES_AT_ONCE:
        with database.tenant(tenant_id) as connection:
            more = store.rename_messages(connection, own, chat_moves.MESSAGES_AT_ONCE)
        yield False


def forget(connection: Connection, tenant_id: str, ids: Sequence[str]) -> None:
    """Keep out what people of these ids said under numbers that they had before, and forget that they had them."""
    for ago in store.former(connection, ids):
        direct: list[suppression.Named] = [("chat", chat) for chat in chats.direct_with(connection, ago.id)]
        suppression.put(connection, tenant_id, [("user", ago.id)], ago.until)
        suppression.put(connection, tenant_id, direct, ago.until)
    store.forget(connection, ids)


def forget_chat(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Keep out what was said in a direct chat under numbers that it had before."""
    number, account = store.of_chat(chat_id)
    for ago in store.former(connection, [number]):
        suppression.put(connection, tenant_id, [("chat", f"{ago.id}{account}")], ago.until)
