"""Write durable statements, each once in its scope; list and delete them."""

from dataclasses import dataclass
from datetime import timedelta
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
from pipeline.store.memories import memory_rows as store
from pipeline.store.memories import memory_search
from pipeline.store.memories.memory_conditions import MemoryConditions
from pipeline.store.memories.memory_rows import new_id
from pipeline.store.operations import counters
from pipeline.text.duplicates import fingerprint
from schemas.errors import InvalidInput, NotFound
from schemas.languages import DEFAULT_LANGUAGE
from schemas.masking import has_mask
from schemas.memories import Memory, MemoryFilter, MemoryIn


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
