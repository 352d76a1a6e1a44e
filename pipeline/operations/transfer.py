"""Write all that is known of a tenant, a chat or a user as JSON Lines; take over a tenant or a chat, nothing lost.

Messages are accepted as any import's; other rows are put beside them, unless they are there, as stated by an operator.
What was forgotten is not in it, but the list that keeps it out is: at the beginning, and again at the end, for what was
forgotten meanwhile. Vectors are made again; summaries and facts are taken over with their sessions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.erasure import derived, edits, forget
from pipeline.ingest import history, place
from pipeline.ingest.accept import MessageLimits
from pipeline.ingest.history import Event
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.failures import reason_of
from pipeline.people import suppression
from pipeline.people.suppression import Named
from pipeline.platforms.records import Broken, Carried, Notice, Parsed
from pipeline.store import identities
from pipeline.store.chats import chats, membership
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched, persistently
from pipeline.store.erasure import erasure
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.operations import transfer as store
from pipeline.text.duplicates import fingerprints_ever
from schemas.base import in_words
from schemas.errors import InvalidInput, NotFound
from schemas.masking import has_mask
from schemas.messages import MAX_CONTENT_BYTES, parse_time
from schemas.payloads import EditEvent, parse_payload
from schemas.people import Forgotten

VERSION = 1
BATCH = 500
"""Rows in one transaction."""
_LISTED_AT_ONCE = 1000
_FIRST, END = "header", "end"
# columns with the time of a row's words: what was forgotten since is kept out
_TIMES = {"memories": "created_at", "memory_evidence": "said_at"}
# memory that is off keeps out what comes, and what was there before has to come first
_LATER = "unremembered"


def export(
    database: Database, tenant_id: str, chat_id: str | None = None, after: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a tenant or a chat; `after` is the `at` of the last line that was received.

    Only one batch is in memory, and nobody waits for a slow reader. Raises `NotFound` for an unknown chat,
    `InvalidInput`, and `DatabaseUnavailable`.
    """
    begin, _, position = (after or "").partition(":")
    parts = list(store.PARTS)
    if after is not None and (begin not in parts or not position):
        raise InvalidInput("after: is the `at` of no line of an export", field="after")
    with database.tenant(tenant_id) as connection:
        chat = None if chat_id is None else chats.get_current(connection, chat_id)
        if chat_id is not None and chat is None:
            raise NotFound(f"there is no chat {chat_id}: see `backscroll chats`")
        now = chats.database_now(connection)
    present = chat.chat_id if chat else None
    if after is None:
        yield _line(_FIRST, {"v": VERSION, "tenant": tenant_id, "chat_id": chat_id, "exported_at": now})
        yield from _forgotten(database, tenant_id, at_first=True)
    for name in parts[parts.index(begin) if after else 0 :]:
        last = position if name == begin else None
        while True:
            with database.tenant(tenant_id) as connection:
                found = store.rows(connection, name, present, last, BATCH)
            for row in found:
                last = str(row.position)
                at = {"at": f"{name}:{last}"}
                yield (
                    {"type": "message", **row.row, **at} if name == "messages" else _line(name, row.row) | at
                )
            if len(found) < BATCH:
                break
    yield from _forgotten(database, tenant_id, at_first=False)
    yield _line(END, {})


def _line(of: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"type": "row", "of": of, "row": row}


def _forgotten(database: Database, tenant_id: str, *, at_first: bool) -> Iterator[dict[str, Any]]:
    listed = forget.suppressed(database, tenant_id)
    if listed is None:
        return
    entries = [entry for entry in listed.entries if not (at_first and entry.kind == _LATER)]
    for batch in batched(entries, _LISTED_AT_ONCE) if entries else [[]]:
        yield _line("forgotten", listed.model_copy(update={"entries": batch}).model_dump(mode="json"))


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Rows of a part that were read, and how many of them are new here."""

    of: str
    rows: int
    new: int
    # forgotten here since, or what they belong to is not here
    left_out: int = 0
    # kinds of jobs that are due now
    follows: frozenset[str] = field(default_factory=frozenset)


def take(
    database: Database,
    tenant_id: str,
    parsed: Iterable[Parsed],
    policy: SessionPolicy,
    *,
    settle: timedelta,
    limits: MessageLimits,
) -> Iterator[Event | Taken]:
    """Import parsed lines as `history.store` does, and the rows among them; the same again changes nothing."""
    taking = _Taking(database=database, tenant_id=tenant_id, policy=policy)
    for of, items in groupby(parsed, key=lambda item: item.of if isinstance(item, Carried) else None):
        if of is None:
            yield from history.store(database, tenant_id, items, policy, settle=settle, limits=limits)
            continue
        for batch in batched(items, BATCH):
            yield from taking.rows(of, [item for item in batch if isinstance(item, Carried)])
    if taking.is_open:
        yield Broken(where="the end", reason="the export is not complete", breaks_off=True)


@dataclass(kw_only=True)
class _Taking:
    database: Database
    tenant_id: str
    policy: SessionPolicy
    # what was forgotten here after that time is kept out
    exported_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    # whether a header came, and its end has not
    is_open: bool = False

    def rows(self, of: str, batch: Sequence[Carried]) -> Iterator[Event | Taken]:
        if of == _FIRST:
            yield from self._begin(batch[0])
        elif of == END:
            self.is_open = False
        elif not self.is_open or of not in (*store.PARTS, "forgotten"):
            what = f"rows of {of!r} are not known" if self.is_open else "rows come after a line of `header`"
            yield from (Broken(where=item.where, reason=what) for item in batch)
        else:
            act: Callable[[Sequence[Carried]], Taken] = {
                "forgotten": self._forgotten,
                "edits": self._edits,
                "sessions": self._sessions,
            }.get(of, partial(self._put, of))
            if of in {"sessions", "memories"}:
                self._place()
            yield from self._tried(act, batch)

    def _tried(
        self, act: Callable[[Sequence[Carried]], Taken], batch: Sequence[Carried]
    ) -> Iterator[Event | Taken]:
        """Take a batch, or if something is wrong with it each row alone, and name the broken ones."""
        try:
            yield persistently(partial(act, batch))
        except (DBAPIError, ValidationError, InvalidInput, ValueError, TypeError, KeyError) as error:
            if len(batch) > 1:
                for item in batch:
                    yield from self._tried(act, [item])
                return
            if isinstance(error, ValidationError):
                why = in_words(error.errors(include_url=False), None)[0]
            else:
                why = str(error) if isinstance(error, InvalidInput) else reason_of(error)
            yield Broken(where=batch[0].where, reason=f"the row of {batch[0].of} is not readable: {why}")

    def _begin(self, header: Carried) -> Iterator[Event]:
        if header.row.get("v") != VERSION:
            raise InvalidInput(
                f"{header.where}: v is {header.row.get('v')!r}; this program reads {VERSION}", field="file"
            )
        try:
            at = parse_time(header.row.get("exported_at"))
        except ValueError as error:
            raise InvalidInput(f"{header.where}: exported_at: {error}", field="file") from None
        if not isinstance(at, datetime):
            raise InvalidInput(f"{header.where}: exported_at is missing", field="file")
        self.exported_at, self.is_open = min(at, datetime.now(UTC)), True
        yield Notice(
            text=f"An export of a Backscroll of {at:%Y-%m-%d}: who is in its chats counts as stated by an operator."
        )

    def _forgotten(self, batch: Sequence[Carried]) -> Taken:
        taken = lost = 0
        for item in batch:
            listed = parse_payload(Forgotten, item.row).model_copy(update={"tenant": self.tenant_id})
            done = forget.forget_again(self.database, listed)
            taken, lost = taken + done.taken_over, lost + done.lost
        size = sum(len(item.row["entries"]) for item in batch)
        return Taken(of="forgotten", rows=size, new=taken, left_out=lost, follows=frozenset({"forget"}))

    def _edits(self, batch: Sequence[Carried]) -> Taken:
        rows = [{name: value for name, value in item.row.items() if value is not None} for item in batch]
        given = [parse_payload(EditEvent, row, {"from": "platform"}) for row in rows]
        texts = [
            edits.NewText(e.chat_id, e.external_id, e.content, e.edited_at, by=e.sender_id) for e in given
        ]
        follows, out = frozenset[str](), 0
        for new in edits.edit_ahead(self.database, self.tenant_id, texts):
            changed = edits.edit(self.database, self.tenant_id, new, self.policy)
            out += changed.outcome in {"kept_out", "not_theirs"}
            follows |= changed.follows
        return Taken(of="edits", rows=len(batch), new=0, left_out=out, follows=follows)

    def _place(self) -> None:
        """Place messages that wait: rows name their sessions."""
        while True:
            with self.database.tenant(self.tenant_id) as connection:
                waiting = store.unplaced_chats(connection, place.CHATS_AT_ONCE)
                if not waiting:
                    return
                place.place(connection, self.tenant_id, dict.fromkeys(waiting), self.policy)

    def _sessions(self, batch: Sequence[Carried]) -> Taken:
        with self.database.tenant(self.tenant_id) as connection:
            new = store.put_sessions(connection, [item.row for item in batch])
            self._embed(connection, [f"session:{i}" for i in new])
        return Taken(of="sessions", rows=len(batch), new=len(new), follows=frozenset({"embed"}))

    def _put(self, of: str, batch: Sequence[Carried]) -> Taken:
        with self.database.tenant(self.tenant_id) as connection:
            suppression_list.lock(connection, self.tenant_id)
            chats.ensure_tenant(connection, self.tenant_id)
            rows = [_checked(of, item.row) for item in batch]
            out = self._kept_out(connection, of, rows)
            kept = [row for row, is_out in zip(rows, out, strict=True) if not is_out]
            new = store.put(connection, self.tenant_id, of, kept) if kept else []
            if of == "memories":
                self._embed(connection, [f"memory:{i}" for i in new])
        return Taken(of=of, rows=len(batch), new=len(new), left_out=sum(out), follows=frozenset({"embed"}))

    def _kept_out(self, connection: Connection, of: str, rows: Sequence[dict[str, Any]]) -> list[bool]:
        """Tell of each row whether one of its subjects was forgotten since, or all messages or people that say it."""
        out = suppression.kept_out(connection, [(self._time(of, row), _named(of, row)) for row in rows])
        sources = [[_said_by(*at) for at in row.get("messages") or ()] for row in rows]
        unique = list({source for each in sources for source in each})
        gone = suppression.kept_out(connection, [(self.exported_at, source) for source in unique])
        forgotten = {source for source, is_gone in zip(unique, gone, strict=True) if is_gone}
        return [
            is_out or (bool(each) and forgotten.issuperset(each))
            for is_out, each in zip(out, sources, strict=True)
        ]

    def _time(self, of: str, row: dict[str, Any]) -> datetime:
        """Return when the words of a row were said or learned, or else exported."""
        at = parse_time(row[_TIMES[of]]) if of in _TIMES else self.exported_at
        if not isinstance(at, datetime):
            raise InvalidInput(f"{_TIMES[of]} is no time", field="file")
        return min(self.exported_at, at)

    def _embed(self, connection: Connection, keys: Sequence[str]) -> None:
        jobs.enqueue(connection, self.tenant_id, "embed", list(keys), priority=jobs.LATER)


def _checked(of: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that may be stored: a hash of words that were masked on the way would tell them."""
    if of == "memories":
        if len(row["content"].encode()) > MAX_CONTENT_BYTES:
            raise InvalidInput(f"content: at most {MAX_CONTENT_BYTES} bytes are taken", field="content")
        if has_mask(row["content"]):
            digest = derived.hash_of_its_own(UUID(row["id"]), row["content"])
            return row | {"content_hash": f"\\x{digest.hex()}"}
    return row


def _said_by(chat_id: str, external_id: str, sender_id: str = "") -> tuple[Named, ...]:
    """Return the subjects whose forgetting keeps out what a message says."""
    return ("message", chat_id, external_id), ("user", sender_id), ("unremembered", sender_id)


def _named(of: str, row: dict[str, Any]) -> list[Named]:
    """Return the subjects whose forgetting keeps a row out."""
    named: list[Named] = [("tenant",)]
    for column in ("chat_id", "learned_in"):
        named += [("chat", row[column])] if row.get(column) else []
    for column in ("sender_id", "user_id"):
        named += [("user", row[column]), ("unremembered", row[column])] if row.get(column) else []
    if of == "memory_evidence":
        named.append(("message", row["chat_id"], row.get("message") or ""))
    if of == "chat_members":
        named.append(("left", row["chat_id"], row["sender_id"]))
    if of == "memories":
        owner = row["scope"], row.get("user_id"), row.get("agent_id")
        words = fingerprints_ever(row["content"])
        named += [("memory", *suppression.memory_names(*owner, digest)) for digest in words]
    return named


def export_user(database: Database, tenant_id: str, sender_id: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a person, by any of their ids: links, messages, memories, chats, sessions and so on.

    Each is a dict with its `record` (`user`, `message`, `memory`, `chat`, `session`, `query`, `rollup` or `entity`);
    times are aware datetimes. The ids of each kind are read first (of messages chat by chat), then the records in
    batches, each in its own transaction: nobody waits for a slow reader, and only one batch of records is in memory.
    Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        senders = identities.ids_of(connection, sender_id)
        spoken_in = erasure.chats_of(connection, senders)
        remembered = identities.ids_to_export(connection, "memory", senders=senders)
    if len(senders) > 1:
        yield {"record": "user", "user_id": senders[0], "senders": senders[1:]}
    for chat_id in spoken_in:
        for sender in senders:
            with database.tenant(tenant_id) as connection:
                said = identities.ids_to_export(connection, "message", sender=sender, chat=chat_id)
            yield from _read(database, tenant_id, "message", said)
    yield from _read(database, tenant_id, "memory", remembered)
    with database.tenant(tenant_id) as connection:
        chats = membership.chats_of(connection, senders)
        sessions = identities.ids_to_export(connection, "session", senders=senders)
        queries = identities.ids_to_export(connection, "query", senders=senders)
    for chat_id in chats:
        yield {"record": "chat", "chat_id": chat_id}
    yield from _read(database, tenant_id, "session", sessions)
    yield from _read(database, tenant_id, "query", queries)
    with database.tenant(tenant_id) as connection:
        rollups = identities.to_export(connection, "rollup", sessions=sessions)
        entities = identities.to_export(connection, "entity", senders=senders)
    yield from (*rollups, *entities)


def _read(database: Database, tenant_id: str, record: str, ids: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for batch in batched(ids, BATCH):
        with database.tenant(tenant_id) as connection:
            records = identities.to_export(connection, record, ids=batch)
        yield from records
