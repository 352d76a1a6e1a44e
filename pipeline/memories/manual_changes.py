"""Change memories by hand: edit the words, widen the scope, or correct a wrong one.

Statements of sessions change them in `pipeline.memories.learned_memories`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.memories import statements
from pipeline.people import suppression
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs
from pipeline.store.memories import entity_graph, learned
from pipeline.store.memories import memory_rows as store
from pipeline.store.memories.memory_rows import Owner
from pipeline.text.duplicates import fingerprint
from schemas.errors import Conflict, InvalidInput, NotFound
from schemas.memories import SCOPES, MemoryCorrection, MemoryEdit, MemoryIn, MemoryPromotion

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
    written = statements.write(connection, tenant_id, memory, language=row.language)
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
