"""Edit and delete single messages by their platform's id, even before they arrive.

The same transaction removes all data derived from the old text, fences off results in flight, and enqueues jobs for the
new text. An edit never moves a message in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.ingest import languages
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import suppression
from pipeline.people.suppression import Named
from pipeline.store import identities
from pipeline.store.chats import chat_moves, chats, membership
from pipeline.store.connections import transactions
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.messages import edits as store
from pipeline.store.messages.message_rows import MessageText
from pipeline.store.operations import counters
from pipeline.text import truncate
from pipeline.text.fencing import without_recalled
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.kinds import FORGET
from schemas.masking import has_mask, masked
from schemas.messages import MAX_CONTENT_BYTES, ChatIn

AHEAD = timedelta(minutes=5)
"""An edit dated further ahead counts as made now: a fast clock would win over every later edit."""

TAKEN_OVER_SECONDS = 10.0
"""Delay until workers take over a deletion that its process has not finished."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The outcome of an edit or a deletion."""

    # `pending`: the message has not arrived; `kept_out`: it was deleted, its sender's memory is off, or the message to
    # delete has not arrived, and will be dropped if it does; `not_theirs`: another person sent the message
    outcome: Literal["edited", "unchanged", "pending", "deleted", "kept_out", "not_theirs"]
    # kinds of jobs that are due now
    follows: frozenset[str] = field(default_factory=frozenset)


class NewText(NamedTuple):
    """The text that a message has from now on."""

    chat_id: str
    external_id: str
    content: str
    # None: now
    edited_at: datetime | None
    # an id of the person who edits it; None: the caller has seen to it that they may
    by: str | None = None


def edit(
    database: Database, tenant_id: str, new: NewText, policy: SessionPolicy, *, trace_id: str | None = None
) -> Changed:
    """Replace a message's text, if who edits it has sent it.

    The newest `edited_at` wins, of equal ones the last to arrive. A long text is cut. An edit that comes before its
    message waits for it. Raises `DatabaseUnavailable`; then nothing was changed, and the call may be repeated.
    """
    content, original_bytes = truncate.within_bytes(masked(without_recalled(new.content)), MAX_CONTENT_BYTES)
    tokens = estimate_tokens(content)
    requested, by = (new.chat_id, new.external_id), new.by
    with database.tenant(tenant_id) as connection:
        chat_id, external_id = chat_moves.address(connection, *requested)
        at = _edited_at(connection, chat_id, external_id, new.edited_at)
        message = store.find(connection, chat_id, external_id, locked=False)
        edited = at and message and _outcome(connection, message, content, at, by) == "edited"
    if edited and message:
        _remove_derived_ahead(database, tenant_id, chat_id, message.id)
    with database.tenant(tenant_id) as connection:
        chat_id, external_id = _lock_address(connection, tenant_id, *requested)
        chat = chats.lock_exclusively(connection, chat_id)
        # under the lock: who forgets a person suppresses and deletes their messages under it
        at = _edited_at(connection, chat_id, external_id, new.edited_at)
        if at is None:
            return Changed(outcome="kept_out")
        if chat is None:
            chats.ensure(connection, tenant_id, ChatIn(chat_id=chat_id))
            chat = chats.lock_exclusively(connection, chat_id)
        message = store.find(connection, chat_id, external_id)
        values = {"content": content, "tokens": tokens, "at": at, "original_bytes": original_bytes}
        if chat is None or message is None:
            store.put_pending(connection, tenant_id, chat_id, external_id, sender=by or "", **values)
            return Changed(outcome="pending")
        outcome = _outcome(connection, message, content, at, by)
        if outcome == "unchanged" and message.content == content:
            store.set_edited_at(connection, message.id, at)
        if outcome != "edited":
            return Changed(outcome=outcome)
        lexemes = store.set_content(connection, message.id, **values)
        counters.add(connection, tenant_id, {"messages_edited": 1, "texts_masked": has_mask(content)})
        after = Measured(content, tokens, lexemes)
        follows = redo(connection, tenant_id, chat, message, after, policy, trace_id=trace_id)
    return Changed(outcome="edited", follows=follows)


def edit_ahead(database: Database, tenant_id: str, edits: Sequence[NewText]) -> list[NewText]:
    """Make edits that come before their messages, all at once; return the others, which `edit` has to make.

    No message is accepted meanwhile. Raises `DatabaseUnavailable`; then nothing was changed.
    """
    texts = [masked(without_recalled(new.content)) for new in edits]
    sizes = [estimate_tokens(content) for content in texts]
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, exclusive=True)
        latest = chats.database_now(connection) + AHEAD
        subjects: list[tuple[datetime, list[Named]]] = [
            (new.edited_at or latest, [("tenant",), ("chat", new.chat_id), ("message", *new[:2])])
            for new in edits
        ]
        out = suppression.kept_out(connection, subjects)
        ahead = [
            {
                "place": place,
                "chat_id": new.chat_id,
                "external_id": new.external_id,
                "sender_id": new.by or "",
                "content": content,
                "token_count": tokens,
                "edited_at": new.edited_at.isoformat(),
            }
            for place, (new, content, tokens, is_out) in enumerate(zip(edits, texts, sizes, out, strict=True))
            if not is_out
            and new.edited_at is not None
            and new.edited_at <= latest
            and len(content.encode()) <= MAX_CONTENT_BYTES
        ]
        done = store.put_all_pending(connection, tenant_id, ahead)
    return [new for place, new in enumerate(edits) if place not in done]


class Measured(NamedTuple):
    """A message's stored text, with its tokens and the lexemes of its search vector."""

    content: str
    tokens: int
    lexemes: int


def redo(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    message: Row[Any],
    after: Measured,
    policy: SessionPolicy,
    *,
    trace_id: str | None = None,
) -> frozenset[str]:
    """Discard what was derived from a message, a row of `store.find` as it was before its text was replaced.

    It is derived again, by jobs of the kinds returned. The chat is locked exclusively.
    """
    chat_id = chat.chat_id
    if message.waiting:
        derived.remove_derived(
            connection, tenant_id, chat_id, message_ids=[message.id], texts=[message.content]
        )
        return frozenset({"ingest"})
    chats.count_placed(connection, chat_id, 0, after.lexemes - message.lexemes)
    touched = store.sessions_at(connection, chat_id, [(message.session_key, message.sent_at)])
    for session in touched:
        store.revise(connection, session.id, after.tokens - message.token_count)
    store.drop_message_vectors(connection, chat_id, [message.id])
    remembered = policy.for_chat(chat).memory
    if remembered:
        text = MessageText(message.id, chat_id, message.role, after.content)
        languages.store_cues(connection, tenant_id, [(text, chat.language)])
    redone = derived.redo_sessions(
        connection, tenant_id, chat, touched, policy, edited=message, trace_id=trace_id
    )
    follows = redone.follows
    if after.content and remembered:
        key = f"message:{message.id}"
        jobs.enqueue(connection, tenant_id, "embed", [key], lane=chat_id, trace_id=trace_id)
        follows |= {"embed"}
    return follows


def _lock_address(
    connection: Connection, tenant_id: str, chat_id: str, external_id: str, *, exclusive: bool = False
) -> tuple[str, str]:
    """Lock a message's chat against forgetting, under its former and its present id; return its present address."""
    suppression_list.lock(connection, tenant_id, chat_id, exclusive=exclusive)
    present = chat_moves.address(connection, chat_id, external_id)
    if present[0] != chat_id:
        suppression_list.lock(connection, tenant_id, present[0], exclusive=exclusive)
    return present


def _edited_at(
    connection: Connection, chat_id: str, external_id: str, edited_at: datetime | None
) -> datetime | None:
    """Return when an edit was made; None if its message was deleted, or its chat or tenant forgotten since."""
    if suppression.is_suppressed(connection, "message", chat_id, external_id):
        return None
    now = chats.database_now(connection)
    at = now if edited_at is None or edited_at > now + AHEAD else edited_at
    return None if suppression.is_kept_out(connection, at, ("chat", chat_id), ("tenant",)) else at


def _is_of(connection: Connection, message: Row[Any], by: str | None) -> bool:
    """Tell whether a person sent a message, under any of their ids; None may change whatever they name."""
    return by is None or message.sender_id in (by, *identities.ids_of(connection, by))


def _outcome(
    connection: Connection, message: Row[Any], content: str, at: datetime, by: str | None
) -> Literal["edited", "unchanged", "kept_out", "not_theirs"]:
    if not _is_of(connection, message, by):
        return "not_theirs"
    if suppression.is_suppressed(connection, "unremembered", message.sender_id):
        return "kept_out"
    if message.content == content or (message.edited_at is not None and message.edited_at > at):
        return "unchanged"
    return "edited"


def delete(
    database: Database,
    tenant_id: str,
    chat_id: str,
    external_id: str,
    policy: SessionPolicy,
    *,
    by: str | None = None,
    trace_id: str | None = None,
) -> Changed:
    """Delete a message for good, if `by` is its sender or a moderator (None: the caller has seen to it that it may).

    The suppression list keeps it out, even if it has not arrived yet; if `by` is no moderator, only as a message of
    theirs. Raises `DatabaseUnavailable`; then the call may be repeated. Suppressing the message also enqueues a job:
    workers finish the deletion if this process does not.
    """
    requested_chat = chat_id
    with database.tenant(tenant_id) as connection:
        # waits for messages being accepted in this chat; those accepted next see the suppression list
        chat_id, external_id = _lock_address(connection, tenant_id, chat_id, external_id, exclusive=True)
        message = store.find(connection, chat_id, external_id, locked=False)
        if by is not None and not membership.moderates(connection, chat_id, by):
            if message is None:
                suppression.put(connection, tenant_id, [("message", chat_id, external_id, by)], None)
                return Changed(outcome="kept_out")
            if not _is_of(connection, message, by):
                return Changed(outcome="not_theirs")
        (digest,) = suppression.put(connection, tenant_id, [("message", chat_id, external_id)], None)
        store.drop_pending(connection, chat_id, [external_id])
        if message is None:
            return Changed(outcome="kept_out")
        subject = {"kind": "message", "chat_id": chat_id, "external_id": external_id}
        until = chats.database_now(connection)
        receipt_id = erasure.insert_receipt(connection, tenant_id, "message", subject, digest, until)
        key_of_job = str(receipt_id)
        jobs.enqueue(
            connection,
            tenant_id,
            "forget",
            [key_of_job],
            delay_seconds=TAKEN_OVER_SECONDS,
            trace_id=trace_id,
        )
    _remove_derived_ahead(database, tenant_id, chat_id, message.id)
    with database.tenant(tenant_id) as connection:
        # the message may have been moved to another chat meanwhile; under this lock it stays where it is
        suppression_list.lock(connection, tenant_id, requested_chat)
        chat = chats.lock_exclusively(connection, chat_moves.chat_of(connection, message.id) or chat_id)
        erased = derived.Erased()
        if chat is not None:
            erased = derived.erase_messages(
                connection, tenant_id, chat, [message.id], policy, trace_id=trace_id
            )
            counters.add(connection, tenant_id, {"messages_deleted": erased.messages})
            counts = {name: count for name, count in vars(erased).items() if name != "follows" and count}
            transactions.log_once_committed(
                connection,
                "forgotten",
                tenant=tenant_id,
                receipt_id=receipt_id,
                kind="message",
                counts=counts,
            )
        jobs.drop(connection, tenant_id, [FORGET], [key_of_job])
        erasure.drop_receipt(connection, receipt_id)
    return Changed(outcome="deleted", follows=erased.follows)


def _remove_derived_ahead(database: Database, tenant_id: str, chat_id: str, message_id: int) -> None:
    more = True
    while more:
        with database.tenant(tenant_id) as connection:
            more = derived.remove_ahead(connection, tenant_id, chat_id, [message_id]).more
