"""Move a chat to another id: the chat of that id, new or existing, gets its messages and derived data.

`start` redirects the chat: from then on messages, questions, edits and deletions under the former id go to the new one.
A job moves the rest session by session in small transactions, and can be killed at any point. Sessions keep their
summaries, vectors and memories; those of both chats within one gap are joined and summarized again. Moved messages get
their former chat's id as a prefix, as both chats may count from 1.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.ingest import session_ranges, sessionize
from pipeline.ingest.session_ranges import Rewrite
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import identities, suppression
from pipeline.people.suppression import Admitted
from pipeline.platforms.identity import in_other_chat
from pipeline.store.chats import chat_languages, chats, membership
from pipeline.store.chats import chat_moves as store
from pipeline.store.chats.chat_languages import DECLARED, DETECTED
from pipeline.store.chats.chat_moves import Moved
from pipeline.store.chats.chats import Chat, clock
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.messages import edits
from pipeline.store.sessions import ranges as store_ranges
from pipeline.store.sessions import session_rows
from pipeline.store.sessions.ranges import SessionShape, Window
from schemas.errors import Busy, InvalidInput
from schemas.messages import ChatIn, MessageIn
from schemas.people import Receipt
from schemas.sessions import Session

MESSAGES_AT_ONCE = 500
SESSIONS_AT_ONCE = 100
"""Moved in one transaction (about 0.3 s), during which neither chat accepts messages."""


def start(
    database: Database, tenant_id: str, chat_id: str, into: str, *, trace_id: str | None = None
) -> Receipt:
    """Redirect a chat to another, created if missing, and enqueue the move; idempotent.

    Raises `NotFound`, `InvalidInput` for the same id, `Busy`, `DatabaseUnavailable`; then nothing was done.
    """
    if chat_id == into:
        raise InvalidInput(f"to: {into} is the id that the chat has", field="to")
    with database.tenant(tenant_id) as connection:
        # blocks storing and forgetting meanwhile
        suppression_list.lock(connection, tenant_id, exclusive=True)
        chat, other = chats.get(connection, chat_id), chats.get(connection, into)
        if chat is None:
            raise chats.unknown(chat_id)
        (digest,) = suppression.entries(connection, tenant_id, ("chat", chat_id))
        if (
            chat.moved_to == into
            and (known := erasure.latest_receipt(connection, "move", digest)) is not None
        ):
            return known
        chats.require_unmoved(chat)
        if other is not None and other.moved_to not in (None, chat_id):
            chats.require_unmoved(other)
        require_idle(connection)
        if other is None:
            create_like(connection, tenant_id, chat, into)
        store.redirect(connection, chat_id, into)
        # senders known only by name are the same people in the joined chat
        for sender_id in membership.of_chat(connection, chat_id):
            identities.unite(connection, tenant_id, sender_id, in_other_chat(sender_id, chat_id, into))
        subject = {"kind": "chat", "chat_id": chat_id, "into": into}
        receipt_id = erasure.insert_receipt(connection, tenant_id, "move", subject, digest, clock(connection))
        jobs.enqueue(connection, tenant_id, "forget", [str(receipt_id)], trace_id=trace_id)
        receipt = erasure.get_receipt(connection, receipt_id)
    if receipt is None:
        raise RuntimeError(f"receipt {receipt_id} vanished while it was written")
    return receipt


def alias(
    database: Database, tenant_id: str, chat_id: str, into: str, *, trace_id: str | None = None
) -> bool:
    """Redirect another id of a direct chat to it, and tell whether what was stored under that id begins to move.

    Nothing is done where neither chat exists. While something else is moved, that waits until the platform shows both
    ids again. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chat = chats.get(connection, chat_id)
        if chat is not None and chat.moved_to is not None:
            return False
        # blocks storing: what comes meanwhile would stay behind
        suppression_list.lock(connection, tenant_id, exclusive=True)
        chat, other = chats.get(connection, chat_id), chats.get(connection, into)
        if chat is None and other is None:
            return False
        if chat is None:
            chats.ensure(connection, tenant_id, ChatIn(chat_id=chat_id, kind="direct"))
            store.redirect(connection, chat_id, into)
            return False
    try:
        start(database, tenant_id, chat_id, into, trace_id=trace_id)
    except Busy:
        return False
    return True


def require_idle(connection: Connection, ids: Sequence[str] | None = None) -> None:
    """Raise `Busy` while something is being forgotten, removed or moved; with `ids`, numbers of others may be."""
    if store.unfinished(connection, ids):
        raise Busy(
            "something is being forgotten, removed or moved: try again when `backscroll forget receipts` says "
            "that it is finished"
        )


def create_like(connection: Connection, tenant_id: str, chat: Chat, chat_id: str) -> None:
    """Create a chat with the settings of another."""
    names = ["platform", "kind", "title", "time_zone", "memory"]
    if chat.language_by == DECLARED:
        names.append("language")
    values = {"chat_id": chat_id} | {name: getattr(chat, name) for name in names}
    chats.ensure(connection, tenant_id, ChatIn.model_validate(values))
    if chat.language_by == DETECTED:
        chat_languages.set_language(connection, chat_id, chat.language, DETECTED)


@dataclass(frozen=True, kw_only=True)
class Parting:
    """How a chat is emptied for somebody who came after its former owner: only what was said up to a time is moved."""

    until: datetime
    # when the first message arrived that stays
    came: datetime
    # derives again what was made of sessions that lose messages `(id, content)`
    redo: Callable[[Connection, Chat, Sequence[Session], Sequence[Row[Any]]], object]


def admit(
    connection: Connection, key: bytes | None, chat_id: str, into: str, received: Sequence[MessageIn]
) -> Admitted:
    """Filter messages that were sent to a chat's former id, and give them their present ids.

    Messages not moved yet are left out: they are stored already. Call it under the chat's lock, then filter by the
    present id.
    """
    admitted = suppression.admit(connection, key, chat_id, received)
    messages, kept_out = _renamed(connection, chat_id, into, admitted.messages), admitted.kept_out
    for other in store.former(connection, into):
        if other != chat_id:
            again = suppression.admit(connection, key, other, messages)
            messages, kept_out = again.messages, kept_out + again.kept_out
    return Admitted(messages=messages, kept_out=kept_out, unnamed=admitted.unnamed)


def _renamed(connection: Connection, chat_id: str, into: str, sent: Sequence[MessageIn]) -> list[MessageIn]:
    there = store.still_there(connection, chat_id, [message.external_id for message in sent])
    new = [message for message in sent if message.external_id not in there]
    names = store.names(connection, chat_id, into, [message.external_id for message in new])
    replies = store.names(connection, chat_id, into, [message.reply_to or "" for message in new])
    return [
        message.model_copy(
            update={
                "external_id": name,
                "reply_to": message.reply_to and reply,
                "sender_id": in_other_chat(message.sender_id, chat_id, into),
            }
        )
        for message, name, reply in zip(new, names, replies, strict=True)
    ]


def steps(
    database: Database,
    tenant_id: str,
    receipt_id: int,
    chat_id: str,
    into: str,
    policy: SessionPolicy,
    parting: Parting | None = None,
) -> Iterator[bool]:
    """Move a chat in steps, each in its own transaction; yield after each whether summaries follow."""
    more = True
    while more:
        with database.tenant(tenant_id) as connection:
            # the lock order of accepting messages under the former id
            for chat in (chat_id, into):
                suppression_list.lock(connection, tenant_id, chat, exclusive=True)
            locked = store.lock(connection, [chat_id, into])
            if len(locked) < 2:
                return
            target = locked[into]
            own = policy.for_chat(target)
            step = _Step(connection, tenant_id, receipt_id, locked[chat_id], target, own, parting)
            more, follows = step.run()
        yield follows


@dataclass(frozen=True)
class _Step:
    """One step of a move, in one transaction under the locks of both chats."""

    connection: Connection
    tenant_id: str
    receipt_id: int
    chat: Chat
    into: Chat
    policy: SessionPolicy
    parting: Parting | None

    def run(self) -> tuple[bool, bool]:
        """Return `(whether there is more, whether summaries follow)`."""
        connection, chat_id, into = self.connection, self.chat.chat_id, self.into.chat_id
        until, came = (self.parting.until, self.parting.came) if self.parting else (None, None)
        if waiting := store.arrivals(connection, chat_id, MESSAGES_AT_ONCE, until):
            self._messages(waiting)
            jobs.enqueue(connection, self.tenant_id, "ingest", [into], lane=into)
            return True, False
        if ids := store.sessions(connection, chat_id, MESSAGES_AT_ONCE, SESSIONS_AT_ONCE, until):
            return True, self._sessions(store_ranges.of_ids(connection, ids))
        if left := store.messages_left(connection, chat_id, MESSAGES_AT_ONCE, until):
            if self.parting is None:
                self._messages(left)
            else:
                self._part(left, self.parting)
            return True, self.parting is not None
        if store.move_rest(connection, chat_id, into, MESSAGES_AT_ONCE, until, came):
            return True, False
        store.clear(connection, self.tenant_id, chat_id, into, whole=self.parting is None)
        if self.parting is not None:
            # what waits there is somebody else's
            jobs.enqueue(connection, self.tenant_id, "ingest", [chat_id], lane=chat_id)
        # close markers of the former chat may cut sessions of the other
        jobs.enqueue(connection, self.tenant_id, "ingest", [into], lane=into)
        return False, self._close()

    def _close(self) -> bool:
        return bool(
            session_ranges.close_sessions(self.connection, self.tenant_id, self.into.chat_id, self.policy)
        )

    def _part(self, ids: Sequence[int], parting: Parting) -> None:
        """Take messages out of sessions that hold somebody else's, too; they arrive in the other chat anew."""
        connection, chat_id, into = self.connection, self.chat.chat_id, self.into.chat_id
        gone = edits.read(connection, chat_id, ids)
        places = sorted({(row.session_key, row.sent_at) for row in gone})
        touched = edits.sessions_at(connection, chat_id, places)
        moved = self._messages(ids)
        chats.count_placed(connection, into, -moved.placed, -moved.lexemes)
        edits.arrive_anew(connection, self.tenant_id, into, ids)
        parting.redo(connection, self.chat, touched, gone)
        jobs.enqueue(connection, self.tenant_id, "ingest", [into], lane=into)

    def _messages(self, ids: Sequence[int], sessions: int = 0) -> Moved:
        keeps_ids = self.parting is not None
        moved = store.messages(
            self.connection, self.chat.chat_id, self.into.chat_id, ids, keeps_ids=keeps_ids
        )
        placed = {
            self.chat.chat_id: (-moved.placed, -moved.lexemes),
            self.into.chat_id: (moved.placed, moved.lexemes),
        }
        chats.count_all_placed(self.connection, placed)
        erasure.add_counts(
            self.connection, self.receipt_id, {"messages": moved.messages, "sessions": sessions}
        )
        return moved

    def _sessions(self, batch: Sequence[Session]) -> bool:
        """Move sessions with their messages, joined with those of the other chat; return whether summaries follow."""
        connection, into = self.connection, self.into.chat_id
        by_key: dict[str, list[Session]] = defaultdict(list)
        for session in [*batch, *store_ranges.near(connection, [self._window(s) for s in batch])]:
            by_key[session.session_key].append(session)
        closes = session_rows.closes(connection, [(into, key) for key in by_key])
        rewrite = Rewrite()
        cut: list[int] = []
        for key, together in by_key.items():
            marks = closes[into, key]
            for group in sessionize.joined(together, self.policy.gap_of(key), marks):
                if len(group) == 1:
                    continue
                shape = _shape(group)
                survivor = rewrite.join(group)
                rewrite.grown[survivor] = shape
                if sessionize.cut_by(marks, shape.started_at, shape.ended_at):
                    cut.append(survivor)
        # sessions are locked by now; messages before jobs, as in the transactions that save vectors
        self._messages(store.messages_of_sessions(connection, self.chat.chat_id, batch), len(batch))
        rewrite.write(connection, self.tenant_id)
        ids = [session.id for session in batch]
        store.move_sessions(connection, into, ids)
        # jobs reading them have seen only a part
        jobs.fence(connection, self.tenant_id, [f"session:{i}" for i in ids])
        for session in store_ranges.of_ids(connection, cut):
            session_ranges.split_anew(connection, self.tenant_id, session, self.into.language, self.policy)
        return bool(rewrite.grown) and self._close()

    def _window(self, session: Session) -> Window:
        gap = self.policy.gap_of(session.session_key)
        return Window(
            chat_id=self.into.chat_id,
            session_key=session.session_key,
            start=session.started_at - gap,
            end=session.ended_at + gap,
        )


def _shape(group: Sequence[Session]) -> SessionShape:
    """Return the joined range with zero counts; joining adds the messages."""
    return SessionShape(
        started_at=min(session.started_at for session in group),
        ended_at=max(session.ended_at for session in group),
        message_count=0,
        token_count=0,
        participants=sorted({name for session in group for name in session.participants}),
    )
