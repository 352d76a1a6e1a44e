"""Remember durable statements, each once in its scope; list and delete them."""

import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal
from uuid import UUID

from sqlalchemy import Connection

from pipeline.erasure import derived
from pipeline.people import suppression, visibility
from pipeline.store import chats, identities, jobs
from pipeline.store import memories as store
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.errors import InvalidInput, NotFound
from schemas.memories import Memory, MemoryFilter, MemoryIn
from schemas.messages import DEFAULT_LANGUAGE


@dataclass(frozen=True, kw_only=True)
class Written:
    """The outcome of writing a memory."""

    # `known`: the same is there already; `kept_out`: it is of somebody, or somewhere, not to be remembered
    outcome: Literal["new", "known", "kept_out"]
    # none: it was not written
    id: UUID | None = None


def remember(database: Database, tenant_id: str, memory: MemoryIn) -> Written:
    """Write a memory, unless its user's or chat's memory is off, or it was forgotten or said before they were.

    The same words in the same scope are the same memory, which keeps the higher importance and the later expiry.
    Raises `InvalidInput` for a chat or session that is not there, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        memory = _placed(connection, memory)
        suppression_list.lock(connection, tenant_id, memory.learned_in)
        return write(connection, tenant_id, memory)


def write(
    connection: Connection, tenant_id: str, memory: MemoryIn, *, language: str = DEFAULT_LANGUAGE
) -> Written:
    """Write a memory in the caller's transaction, under `suppression_list.lock` of the chat that it was learned in."""
    words = " ".join(memory.content.split()).casefold()
    digest = blake2b(words.encode(), digest_size=16).digest()
    memory = _placed(connection, memory)
    if suppression.keeps_out(connection, memory, digest) or not _remembers(connection, memory):
        return Written(outcome="kept_out")
    chats.ensure_tenant(connection, tenant_id)
    identity, new = store.insert(connection, tenant_id, new_id(), memory, digest, language)
    if new:
        jobs.enqueue(connection, tenant_id, "embed", [f"memory:{identity}"], lane=memory.learned_in or "")
    return Written(outcome="new" if new else "known", id=identity)


def _placed(connection: Connection, memory: MemoryIn) -> MemoryIn:
    """Return the memory with the present id of the chat where it was learned, by default its session's."""
    learned_in = memory.learned_in
    if memory.session_id is not None:
        chat_id = store.chat_of_session(connection, memory.session_id)
        if chat_id is None:
            raise InvalidInput(
                f"session_id: there is no session {memory.session_id}: see `backscroll sessions list`",
                field="session_id",
            )
        learned_in = learned_in or chat_id
    chat = chats.followed(connection, learned_in) if learned_in else None
    return memory.model_copy(update={"learned_in": learned_in if chat is None else chat.chat_id})


def _remembers(connection: Connection, memory: MemoryIn) -> bool:
    """Tell whether the chat that it was learned in is remembered. Raises `InvalidInput` if there is none."""
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


def listing(database: Database, tenant_id: str, given: MemoryFilter) -> list[Memory]:
    """List live memories, newest first; with `chat_id` only those that may be shown there (and to `user_id`).

    Raises `NotFound` for a chat that is not there, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        visible = None
        if given.chat_id is not None:
            chat = chats.followed(connection, given.chat_id)
            if chat is None:
                raise NotFound(f"there is no chat {given.chat_id}: see `backscroll chats`")
            visible = visibility.seen(connection, chat.chat_id, chat.kind, given.user_id).visible
        ids = None if given.user_id is None else identities.ids_of(connection, given.user_id)
        return store.listing(connection, given, ids, visible)


def delete(database: Database, tenant_id: str, identity: UUID) -> None:
    """Delete a memory, and answers that may rest on it; it may be written again.

    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        if not store.delete(connection, tenant_id, identity):
            raise NotFound(f"there is no memory {identity}")
        derived.take_back_memories(connection, tenant_id, [identity])


def new_id() -> UUID:
    """Return a UUID that sorts by the time it was made (RFC 9562, version 7)."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | secrets.randbits(80)
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62))
