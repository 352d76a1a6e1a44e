"""SQL of paid answers of language models, kept until the job that requested them has saved its result."""

from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import holds, run
from pipeline.store.jobs.jobs import Claim
from pipeline.store.models.llm_calls import Entry

_FIND = text("""
    SELECT answer, truncated, input_tokens, output_tokens FROM llm_answers
    WHERE tenant_id = :tenant_id AND model = :model AND prompt_hash = :prompt_hash
""")
# Whoever erases something of a chat has locked it: the claim is looked at once they have fenced it.
_HOLD_CHAT = text("""
    SELECT 1 FROM chats WHERE tenant_id = :tenant_id AND chat_id = :chat_id AND moved_to IS NULL FOR KEY SHARE
""")
_KEEP = text("""
    INSERT INTO llm_answers (tenant_id, model, prompt_hash, chat_id, kind, key, answer, truncated, input_tokens,
        output_tokens)
    VALUES (:tenant_id, :model, :prompt_hash, :chat_id, :kind, :key, :text, :truncated, :input_tokens, :output_tokens)
    ON CONFLICT DO NOTHING
""")
_DROP_OF_JOB = text("DELETE FROM llm_answers WHERE chat_id = :chat AND kind = :kind AND key = :key")


class Answer(NamedTuple):
    """What a model answered, and the tokens that were used."""

    text: str
    truncated: bool
    input_tokens: int
    output_tokens: int


def find(connection: Connection, entry: Entry) -> Answer | None:
    """Return the answer that was kept for a call's prompt."""
    row = run(connection, _FIND, **vars(entry)).one_or_none()
    return None if row is None else Answer(*row)


def hold_chat(connection: Connection, entry: Entry) -> bool:
    """Block erasure in a call's chat until the transaction ends; return False if the chat is gone or has moved."""
    return holds(connection, _HOLD_CHAT, **vars(entry))


def keep(connection: Connection, entry: Entry, claim: Claim, answer: Answer) -> None:
    """Keep the answer to a call for the job that asked for it."""
    run(connection, _KEEP, kind=claim.kind, key=claim.key, **(vars(entry) | answer._asdict()))


def drop_of_job(connection: Connection, chat_id: str, claim: Claim) -> None:
    """Delete the answers that a job has made use of."""
    run(connection, _DROP_OF_JOB, chat=chat_id, kind=claim.kind, key=claim.key)


def drop_of_chat(connection: Connection, chat_id: str) -> None:
    """Delete the answers that may quote a chat."""
    run(connection, "DELETE FROM llm_answers WHERE chat_id = :chat", chat=chat_id)
