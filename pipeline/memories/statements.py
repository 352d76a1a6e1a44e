"""Write durable statements, each once in its scope; list and delete them; edit, promote and correct them by hand.

Statements of sessions change them in `pipeline.memories.learned_memories`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.people import suppression, visibility
from pipeline.store import identities
from pipeline.store.chats import chats
from pipeline.store.chats.membership import Seen
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.memories import entity_graph, learned, memory_search
from pipeline.store.memories import memory_rows as store
from pipeline.store.memories.memory_conditions import MemoryConditions
from pipeline.store.memories.memory_rows import Owner, new_id
from pipeline.store.operations import counters
from pipeline.text.duplicates import fingerprint
from schemas.errors import Conflict, InvalidInput, NotFound
from schemas.languages import DEFAULT_LANGUAGE
from schemas.masking import has_mask
from schemas.memories import (
    SCOPES,
    Memory,
    MemoryCorrection,
    MemoryEdit,
    MemoryFilter,
    MemoryIn,
    MemoryPromotion,
)


@dataclass(frozen=True, kw_only=True)
class Written:
    """The outcome of writing a memory."""

    # `known`: the same is stored already; `kept_out`: its person or chat was forgotten or has memory off
    outcome: Literal["new", "known", "kept_out"]
    # None: it was not written
    id: UUID | None = None


def remember(
    database: Database, tenant_id: str, memory: MemoryIn, *, session_lifetime: timedelta | None = None
) -> Written:
    """Write a memory, unless its user's or chat's memory is off, or a later forgetting covers it.

    The same words in the same scope and chat are the same memory, which keeps the higher importance and the later
    expiry, and is believed again if it was superseded or retracted. A session's memory without an expiry of its own
    lives for `session_lifetime` after it was last written or shown. Raises `InvalidInput` for an unknown chat or
    session, and `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        memory = _placed(connection, memory)
        suppression_list.lock(connection, tenant_id, memory.learned_in)
        written = write(connection, tenant_id, memory, session_lifetime=session_lifetime)
        if written.outcome == "known" and written.id is not None:
            at = memory.said_at or chats.database_now(connection)
            store.revive(connection, tenant_id, written.id, at)
        return written


def write(
    connection: Connection,
    tenant_id: str,
    memory: MemoryIn,
    *,
    language: str = DEFAULT_LANGUAGE,
    session_lifetime: timedelta | None = None,
) -> Written:
    """Write a memory in the caller's transaction, under `suppression_list.lock` of the chat that it was learned in."""
    lives_for = session_lifetime if memory.scope == "session" and memory.expires_at is None else None
    memory = _placed(connection, memory)
    if suppression.keeps_out(connection, memory) or not _remembers(connection, memory):
        return Written(outcome="kept_out")
    chats.ensure_tenant(connection, tenant_id)
    digest = fingerprint(memory.content, memory.learned_in)
    identity, new = store.insert(connection, tenant_id, new_id(), memory, digest, language, lives_for)
    if new:
        counters.add(connection, tenant_id, {"texts_masked": has_mask(memory.content)})
        jobs.enqueue(connection, tenant_id, "embed", [f"memory:{identity}"], lane=memory.learned_in or "")
    return Written(outcome="new" if new else "known", id=identity)


def _placed(connection: Connection, memory: MemoryIn) -> MemoryIn:
    """Return the memory with the present id of the chat that it was learned in, by default its session's."""
    learned_in = memory.learned_in
    if memory.session_id is not None:
        chat_id = store.chat_of_session(connection, memory.session_id)
        if chat_id is None:
            raise InvalidInput(
                f"session_id: there is no session {memory.session_id}: see `backscroll sessions list`",
                field="session_id",
            )
        learned_in = learned_in or chat_id
    chat = chats.get_current(connection, learned_in) if learned_in else None
    return memory.model_copy(update={"learned_in": learned_in if chat is None else chat.chat_id})


def _remembers(connection: Connection, memory: MemoryIn) -> bool:
    """Tell whether memory is on in the chat that it was learned in. Raises `InvalidInput` for an unknown chat."""
    if memory.learned_in is None:
        return True
    chat = chats.get(connection, memory.learned_in)
    if chat is None:
        raise InvalidInput(
            f"learned_in: there is no chat {memory.learned_in}: name one whose messages are stored, or leave it "
            "out for what was learned in no chat",
            field="learned_in",
        )
    return chat.memory


def listing(database: Database, tenant_id: str, filters: MemoryFilter) -> list[Memory]:
    """List memories that are believed, newest first.

    With `chat_id`, list only those that may be shown there (and to `user_id`), without other chats' details. Raises
    `NotFound` for an unknown chat, and `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        seen, here = seen_in(connection, filters.chat_id, filters.user_id)
        ids = None if filters.user_id is None else identities.ids_of(connection, filters.user_id)
        which = MemoryConditions(
            scope=filters.scope,
            user_ids=ids,
            agent_id=filters.agent_id,
            types=None if filters.type is None else [filters.type],
            source=filters.source,
        )
        rows = memory_search.listing(
            connection,
            which,
            seen,
            after=filters.after,
            as_of=filters.as_of,
            superseded=filters.superseded,
            limit=filters.limit,
        )
        return [as_memory(row, seen, here) for row in rows]


def seen_in(
    connection: Connection, chat_id: str | None, user_id: str | None
) -> tuple[Seen | None, str | None]:
    """Return what may be shown in a chat to a user, and the chat's present id; without a chat, both None.

    Raises `NotFound` for an unknown chat.
    """
    if chat_id is None:
        return None, None
    chat = chats.require_current(connection, chat_id)
    return visibility.seen(connection, chat.chat_id, chat.kind, user_id), chat.chat_id


def as_memory(row: Row[Any], seen: Seen | None, here: str | None) -> Memory:
    """Return a row of `memory_search` without details that the chat may not see; with `seen` None, whole."""
    fields = {name: row._mapping[name] for name in Memory.model_fields}
    if seen is not None:
        fields["learned_in"] = seen.visible.source(row.learned_in, row.also_in, here)
        fields["said_at"] = None if row.said_at is None else row.since
    return Memory(**fields)


def delete(database: Database, tenant_id: str, identity: UUID) -> None:
    """Delete a memory, and remembered answers that may rest on it; it may be written again.

    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        if not store.delete(connection, tenant_id, identity):
            raise NotFound(f"there is no memory {identity}")
        derived.remove_with_memories(connection, tenant_id, [identity])


FROM_CONTEXT = frozenset({"context_id", "question_chars", "recalled"})
"""Metadata of remembered answers, by which they are found when the data behind them is forgotten."""


@dataclass(frozen=True, kw_only=True)
class MemoryChange:
    # `kept_out`: its person was forgotten or has memory off
    outcome: Literal["edited", "promoted", "corrected", "retracted", "kept_out"]
    # after a correction, the id of the right statement
    id: UUID


def edit(database: Database, tenant_id: str, identity: UUID, change: MemoryEdit) -> MemoryChange:
    """Change a memory's words, importance, expiry or metadata; new words are embedded again.

    A learned memory keeps its kind and its evidence. Raises `NotFound`, `InvalidInput`, `Conflict`,
    `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        row = _locked(connection, tenant_id, identity)
        _require_believed(row)
        if change.content is not None and change.content != row.content:
            if row.type == "qa_turn":
                raise InvalidInput(
                    "content: question and answer stay as they were: remove the memory, or add a statement",
                    field="content",
                )
            if suppression.keeps_out(connection, _as_memory_in(row, _owner(row), change.content)):
                return MemoryChange(outcome="kept_out", id=identity)
            digest = fingerprint(change.content, row.learned_in)
            _require_unique(connection, identity, _owner(row), digest, "content")
            store.reword(connection, identity, change.content, digest)
            entity_graph.drop(connection, identity)
            derived.remove_answers(connection, tenant_id, [identity])
            jobs.enqueue(connection, tenant_id, "embed", [f"memory:{identity}"], lane=row.learned_in or "")
        if change.importance is not None:
            store.set_importance(connection, identity, change.importance)
        if "expires_at" in change.model_fields_set:
            store.set_expiry(connection, identity, change.expires_at)
        if change.metadata is not None:
            protected = FROM_CONTEXT & change.metadata.keys() if row.type == "qa_turn" else ()
            if protected:
                raise InvalidInput(
                    f"metadata: {', '.join(sorted(protected))} of question and answer cannot be changed",
                    field="metadata",
                )
            store.merge_metadata(connection, identity, change.metadata)
        return MemoryChange(outcome="edited", id=identity)


def promote(database: Database, tenant_id: str, identity: UUID, promotion: MemoryPromotion) -> MemoryChange:
    """Give a memory a wider scope; it keeps the chat that it was learned in, and so who may see it.

    Raises `NotFound`, `InvalidInput`, `Conflict`, `DatabaseUnavailable`.
    """
    owner = Owner(promotion.scope, None, promotion.user_id, promotion.agent_id)
    with database.tenant(tenant_id) as connection:
        row = _locked(connection, tenant_id, identity)
        _require_believed(row)
        if SCOPES.index(promotion.scope) <= SCOPES.index(row.scope):
            wider = SCOPES[SCOPES.index(row.scope) + 1 :]
            raise InvalidInput(
                f"scope: the memory has the scope {row.scope}, "
                + (f"and can be promoted to {' or '.join(wider)}" if wider else "the widest there is"),
                field="scope",
            )
        if suppression.keeps_out(connection, _as_memory_in(row, owner, row.content)):
            return MemoryChange(outcome="kept_out", id=identity)
        _require_unique(connection, identity, owner, bytes(row.content_hash), "scope")
        store.promote(connection, identity, owner)
        return MemoryChange(outcome="promoted", id=identity)


def correct(database: Database, tenant_id: str, identity: UUID, correction: MemoryCorrection) -> MemoryChange:
    """Record that a memory is wrong: the right statement supersedes it, or without one it is retracted.

    Either way it stays as history. The right statement has the same owner and subject; without a chat of its own it is
    shown wherever the wrong one was. Raises `NotFound`, `InvalidInput`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chat_id = None if correction.chat_id is None else _chat(connection, correction.chat_id)
        row = _locked(connection, tenant_id, identity, said_in=chat_id)
        # a memory may be dated by a clock that is ahead
        at = correction.said_at or max(row.now, row.since + timedelta(microseconds=1))
        if correction.said_at is not None and not row.since < at <= row.now:
            raise InvalidInput(
                f"said_at: must be after {row.since.isoformat()}, when the memory was said, and not ahead",
                field="said_at",
            )
        if correction.content is None:
            store.retract(connection, identity, at)
            changed = MemoryChange(outcome="retracted", id=identity)
        else:
            changed = _replace(connection, tenant_id, row, correction.content, at, chat_id)
        derived.remove_answers(connection, tenant_id, [identity])
        return changed


def _replace(
    connection: Connection, tenant_id: str, row: Row[Any], content: str, at: datetime, chat_id: str | None
) -> MemoryChange:
    """Replace a memory by the right statement, made in `chat_id` or else wherever the memory was."""
    if fingerprint(content) == fingerprint(row.content):
        raise InvalidInput(
            "content: these are the memory's own words: leave content out if it is wrong", field="content"
        )
    said_in = [row.learned_in, *row.also_in] if chat_id is None else [chat_id]
    memory = _as_memory_in(row, _owner(row), content).model_copy(
        update={
            # a remembered answer belongs to its context, the correction does not
            "type": "fact" if row.type == "qa_turn" else row.type,
            "learned_in": said_in[0],
            "said_at": at,
            "source": "correction",
        }
    )
    written = write(connection, tenant_id, memory, language=row.language)
    if written.id is None:
        return MemoryChange(outcome="kept_out", id=row.id)
    store.revive(connection, tenant_id, written.id, at)
    store.supersede(
        connection,
        tenant_id,
        row.id,
        written.id,
        at=at,
        also_in=[chat for chat in said_in if chat is not None],
    )
    learned.tell_superseded(connection, tenant_id, row.id, written.id, said_in[0])
    return MemoryChange(outcome="corrected", id=written.id)


def _locked(
    connection: Connection, tenant_id: str, identity: UUID, *, said_in: str | None = None
) -> Row[Any]:
    """Return a live memory, locked against forgetting in its chat, or in `said_in`.

    Raises `NotFound`, and `InvalidInput` for a chunk of a document.
    """
    suppression_list.lock(connection, tenant_id, said_in or store.learned_in(connection, identity))
    row = store.locked(connection, identity)
    if row is None:
        raise NotFound(f"there is no memory {identity}: see `backscroll memories list`")
    if row.type == "document":
        raise InvalidInput(
            f"memory_id: {identity} is a part of a document: change that, and `backscroll documents add` it again",
            field="memory_id",
        )
    return row


def _chat(connection: Connection, chat_id: str) -> str:
    """Return the present id of a chat. Raises `InvalidInput`."""
    chat = chats.get_current(connection, chat_id)
    if chat is None:
        raise InvalidInput(
            f"chat_id: there is no chat {chat_id}: a chat begins with its first message", field="chat_id"
        )
    return chat.chat_id


def _owner(row: Row[Any]) -> Owner:
    return Owner(row.scope, row.session_id, row.user_id, row.agent_id)


def _as_memory_in(row: Row[Any], owner: Owner, content: str) -> MemoryIn:
    """Return a stored memory as this owner would write it now, with other content."""
    return MemoryIn(
        scope=owner.scope,
        type=row.type,
        content=content,
        session_id=owner.session,
        user_id=owner.user,
        agent_id=owner.agent,
        learned_in=row.learned_in,
        importance=row.importance,
    )


def _require_believed(row: Row[Any]) -> None:
    """Raise `Conflict` for a memory that is known to be wrong."""
    if row.retracted_at is not None:
        raise Conflict(
            f"memory {row.id} is known to be wrong since {row.retracted_at:%Y-%m-%d}: if it is right, add it again",
            field="memory_id",
        )


def _require_unique(
    connection: Connection, identity: UUID, owner: Owner, content_hash: bytes, field: str
) -> None:
    """Raise `Conflict` if the owner has another memory with these words from the same chat."""
    other = store.twin(connection, identity, owner, content_hash)
    if other is not None:
        raise Conflict(
            f"{field}: memory {other} of the same {owner.scope} says this already: remove one of them",
            field=field,
        )
