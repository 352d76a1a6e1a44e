"""Mask the credentials in what is already stored; what was derived from it is made again, as after an edit."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived, edits
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.memories import documents
from pipeline.platforms import identity
from pipeline.store import vectors
from pipeline.store.chats import chats
from pipeline.store.erasure import suppression, written
from pipeline.store.jobs import jobs
from pipeline.store.memories import entity_graph, memory_rows
from pipeline.store.memories.memory_rows import Owner
from pipeline.store.messages import edits as messages
from pipeline.store.operations import counters
from pipeline.text import truncate
from pipeline.text.duplicates import fingerprint
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.masking import masked, masked_json
from schemas.messages import MAX_CONTENT_BYTES


def masks(texts: Any) -> bool:
    """Tell whether anything would be masked in the `texts` of a row."""
    return bool(masked_json(texts) != texts)


def mask(
    connection: Connection, tenant_id: str, key: str, chat_id: str | None, policy: SessionPolicy
) -> None:
    """Mask the texts of one row, by the kind and the id in `key` (see `written.TEXTS`), in the caller's transaction."""
    kind, _, position = key.partition(":")
    suppression.lock(connection, tenant_id, chat_id)
    # locked before its messages and sessions, as by everything that changes them
    chat = None if chat_id is None else chats.lock_exclusively(connection, chat_id)
    row = written.locked(connection, kind, position)
    if row is None or not masks(row.texts):
        return
    counters.add(connection, tenant_id, {"texts_masked": 1})
    new = masked_json(row.texts)
    if kind == "message" and chat is not None:
        _message(connection, tenant_id, chat, row, new, policy)
    elif kind == "memory":
        _memory(connection, tenant_id, row, new)
    else:
        written.replace(connection, kind, position, new)
    if kind == "session":
        vectors.drop_sessions(connection, [row.id])
        jobs.enqueue(connection, tenant_id, "embed", [key], lane=row.chat_id)


def _message(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    row: Row[Any],
    new: list[Any],
    policy: SessionPolicy,
) -> None:
    before = messages.find(connection, chat.chat_id, row.external_id)
    new[0], _ = truncate.within_bytes(new[0], MAX_CONTENT_BYTES)
    more: dict[str, Any] = {"token_count": estimate_tokens(new[0]), "revision": row.revision + 1}
    if identity.is_hash(row.external_id) and new[0] != row.content:
        more["external_id"] = identity.keyed(row.external_id, suppression.ensure_key(connection, tenant_id))
    written.replace(connection, "message", str(row.id), new, **more)
    after = messages.find(connection, chat.chat_id, more.get("external_id", row.external_id))
    if before is not None and after is not None and new[0] != row.content:
        measured = edits.Measured(new[0], after.token_count, after.lexemes)
        edits.redo(connection, tenant_id, chat, before, measured, policy)


def _memory(connection: Connection, tenant_id: str, row: Row[Any], new: list[Any]) -> None:
    content, metadata = _content(row, new)
    if row.document_id is not None:
        digest = documents.digest(row.chunk_index, content)
    else:
        digest = fingerprint(content, row.learned_in)
        owner = Owner(row.scope, row.session_id, row.user_id, row.agent_id)
        if memory_rows.twin(connection, row.id, owner, digest) is not None:
            # two that differed in what is masked
            digest = derived.hash_of_its_own(row.id, content)
    values = [content, metadata, *new[2:]]
    written.replace(connection, "memory", str(row.id), values, content_hash=f"\\x{digest.hex()}")
    memory_rows.drop_vectors(connection, row.id)
    if row.document_id is None:
        entity_graph.drop(connection, row.id)
    derived.remove_answers(connection, tenant_id, [UUID(str(row.id))])
    jobs.enqueue(connection, tenant_id, "embed", [f"memory:{row.id}"], lane=row.learned_in or "")


def _content(row: Row[Any], new: list[Any]) -> tuple[str, Any]:
    """Return a memory's masked words and metadata, which say where the question of a remembered answer ends."""
    content, metadata = new[0], new[1]
    if row.type == "qa_turn" and "question_chars" in metadata:
        end = metadata["question_chars"]
        question = masked(row.content[:end])
        content, metadata = question + masked(row.content[end:]), metadata | {"question_chars": len(question)}
    return truncate.within_bytes(content, MAX_CONTENT_BYTES)[0], metadata
