"""Take back what was made of messages that go, or that say something else now.

Memories made of them; question and answer of contexts that showed them; and of the query log what quotes them:

- a message, or a session that it lies in, that a context showed is taken out of what it showed, and the answer to
  that context with it, as it may repeat the message;
- a question that says what the message said is taken out, with its answer: a bot asks with the very message that
  it reacts to;
- what somebody else asked in their own words stays, as what they said does.

There may be thousands of rows to write for one message, so it is done twice: `take_back_ahead` before the chat is
locked, and `take_back` in the transaction that erases the message, which finds what came in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from pipeline.store import changes, querylog
from pipeline.store import derived as store


@dataclass(frozen=True, kw_only=True)
class TakenBack:
    """How much went."""

    memories: int = 0
    # rows of the query log that nothing was taken out of before
    queries: int = 0


def take_back(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    *,
    message_ids: Sequence[int] = (),
    session_ids: Sequence[int] = (),
    texts: Sequence[str] = (),
) -> TakenBack:
    """Take back what was made of a chat's messages and of sessions; `texts` is what the messages said."""
    sessions = store.with_pointers(connection, session_ids)
    gone = store.drop_memories(
        connection, tenant_id, chat_id, message_ids=message_ids, session_ids=sessions, texts=texts
    )
    items = [*store.items_of(message_ids, sessions), *store.memory_items(gone)]
    return _redact(connection, tenant_id, chat_id, items, texts, gone)


def take_back_ahead(
    connection: Connection, tenant_id: str, chat_id: str, message_ids: Sequence[int]
) -> TakenBack:
    """Take back what was made of messages that are about to be erased, without a lock on their chat."""
    rows = changes.read(connection, chat_id, message_ids)
    places = sorted({(row.session_key, row.sent_at) for row in rows})
    sessions = changes.sessions_at(connection, chat_id, places, locked=False)
    return take_back(
        connection,
        tenant_id,
        chat_id,
        message_ids=[row.id for row in rows],
        session_ids=[session.id for session in sessions],
        texts=[row.content for row in rows],
    )


def take_back_memories(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> TakenBack:
    """Take back what was made of memories that have been deleted."""
    gone = store.drop_recalling(connection, tenant_id, memory_ids)
    return _redact(connection, tenant_id, None, store.memory_items([*memory_ids, *gone]), (), gone)


def _redact(
    connection: Connection,
    tenant_id: str,
    chat_id: str | None,
    items: Sequence[str],
    texts: Sequence[str],
    gone: Sequence[UUID],
) -> TakenBack:
    """Take items and quoted texts out of the query log; `gone` memories are counted with those that go now.

    An answer that was being reported meanwhile may have become a memory since memories were looked for: it goes
    with its context's row.
    """
    memories, contexts = set(gone), 0
    while items or texts:
        redacted = querylog.redact(connection, items, chat_id, texts)
        contexts += redacted.fresh
        late = store.drop(connection, tenant_id, sorted(redacted.memories - memories))
        memories |= set(late)
        items, texts = store.memory_items(late), ()
    return TakenBack(memories=len(memories), queries=contexts)
