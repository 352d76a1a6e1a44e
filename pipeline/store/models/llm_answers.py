"""SQL of answers of language models that were paid for, kept until the job that asked for them has saved its result."""

from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import holds, run

_FIND = text("""
    SELECT answer, truncated, input_tokens, output_tokens FROM llm_answers
    WHERE tenant_id = :tenant AND model = :model AND prompt_hash = :hash
""")
# Whoever erases something of a chat has locked it: the claim is looked at once they have fenced it.
_HOLD_CHAT = text("""
    SELECT 1 FROM chats WHERE tenant_id = :tenant AND chat_id = :chat AND moved_to IS NULL FOR KEY SHARE
""")
_KEEP = text("""
    INSERT INTO llm_answers (tenant_id, model, prompt_hash, chat_id, kind, key, answer, truncated, input_tokens,
        output_tokens)
    VALUES (:tenant, :model, :prompt_hash, :chat_id, :kind, :key, :answer, :truncated, :input_tokens, :output_tokens)
    ON CONFLICT DO NOTHING
""")
_DROP_OF_JOB = text("DELETE FROM llm_answers WHERE chat_id = :chat AND kind = :kind AND key = :key")
_DROP_OF_CHAT = text("DELETE FROM llm_answers WHERE chat_id = :chat")


def find(connection: Connection, tenant_id: str, model: str, prompt_hash: bytes) -> Row[Any] | None:
    """Return the kept answer to a prompt: `(answer, truncated, input_tokens, output_tokens)`."""
    return run(connection, _FIND, tenant=tenant_id, model=model, hash=prompt_hash).one_or_none()


def hold_chat(connection: Connection, tenant_id: str, chat_id: str) -> bool:
    """Keep a chat from being changed by erasure until the transaction ends; False: it is gone or has moved."""
    return holds(connection, _HOLD_CHAT, tenant=tenant_id, chat=chat_id)


def keep(
    connection: Connection,
    tenant_id: str,
    *,
    model: str,
    prompt_hash: bytes,
    chat_id: str,
    kind: str,
    key: str,
    answer: str,
    truncated: bool,
    input_tokens: int,
    output_tokens: int,
) -> None:
    """Keep an answer for the job of this kind and key."""
    of_job = {"chat_id": chat_id, "kind": kind, "key": key}
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    given = {"model": model, "prompt_hash": prompt_hash, "answer": answer, "truncated": truncated}
    run(connection, _KEEP, tenant=tenant_id, **of_job, **usage, **given)


def drop_of_job(connection: Connection, chat_id: str, kind: str, key: str) -> None:
    """Delete the answers that a job has made use of."""
    run(connection, _DROP_OF_JOB, chat=chat_id, kind=kind, key=key)


def drop_of_chat(connection: Connection, chat_id: str) -> None:
    """Delete the answers that may quote a chat."""
    run(connection, _DROP_OF_CHAT, chat=chat_id)
