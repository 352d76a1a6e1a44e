"""Record what was asked and shown, and what was answered; let an answer become a memory.

A row holds ids, figures and the question, none of what it showed. What a forgotten user asked, or anybody in a
forgotten chat, is not recorded, even if the context was under way when they were forgotten.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.memories import statements as remembering
from pipeline.people import suppression
from pipeline.people.suppression import Named
from pipeline.store import chats, counters, memories
from pipeline.store import query_log as store
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from pipeline.text.fencing import without_recalled
from schemas.context import BlockKind, Context
from schemas.errors import InvalidInput, NotFound
from schemas.memories import MemoryIn
from schemas.messages import DEFAULT_LANGUAGE, MAX_CONTENT_BYTES
from schemas.payloads import ContextQuery
from schemas.querylog import AnswerIn, AnswerReceipt, LoggedContext, Source
from schemas.settings import Settings

SOURCES: dict[BlockKind, Source] = {
    "history": "recent",
    "exchanges": "message",
    "sessions": "session",
    "related": "session",
    "memories": "memory",
    "documents": "document",
}
"""What a block's tokens are counted as; those of the question and the guardrails are nobody's."""


def shown_in(context: Context) -> dict[str, str]:
    """The block that each item of a context stands in, by `kind:id`; the first where it stands in two."""
    items = [(item, block.kind) for block in reversed(context.blocks) for item in block.items]
    # what a line quotes was shown, too
    quoted: dict[str, str] = {f"message:{item.answers}": kind for item, kind in items if item.answers}
    return quoted | {f"{item.kind}:{item.id}": kind for item, kind in items}


def by_source(context: Context) -> tuple[dict[str, int], dict[str, int]]:
    """A context's tokens and its characters by source."""
    tokens: dict[str, int] = {}
    chars: dict[str, int] = {}
    for block in context.blocks:
        if source := SOURCES.get(block.kind):
            tokens[source] = tokens.get(source, 0) + block.tokens
            chars[source] = chars.get(source, 0) + block.chars
    return tokens, chars


def record(
    connection: Connection,
    tenant_id: str,
    query: ContextQuery,
    context: Context,
    asked_at: datetime,
    seconds: float,
    *,
    remembered: bool,
) -> None:
    """Record a context, asked by the database's clock, that took so many seconds; under `suppression.lock` of its chat.

    Where memory is off (not `remembered`), or whoever asks is not to be remembered, the figures alone.
    """
    if suppression.stopped(connection, asked_at, ("tenant",), ("chat", query.chat_id)):
        return
    asker = query.user_id or None
    if asker and remembered:
        remembered = not suppression.stopped(connection, asked_at, ("user", asker), ("unremembered", asker))
    tokens, chars = by_source(context)
    row: dict[str, Any] = {
        "context_id": context.context_id,
        "chat_id": query.chat_id,
        "user_id": asker,
        "agent_id": query.agent_id or None,
        "session_key": query.session_key,
        "profile": query.profile,
        "asked_at": asked_at,
        "query": query.query,
        "shown": shown_in(context),
        "tokens": tokens,
        "chars": chars,
        "used_tokens": context.used_tokens,
        "budget": context.budget,
        "latency_ms": round(seconds * 1000, 1),
        # a provider's words may quote what it was sent
        "degraded": [reason.partition(":")[0] for reason in context.degraded],
        "redacted_at": None,
    }
    if not remembered:
        row |= {"user_id": None, "query": None, "shown": {}, "redacted_at": asked_at}
    store.insert(connection, tenant_id, row)


def listing(
    database: Database, tenant_id: str, chat_id: str | None, limit: int, after: str | None = None
) -> list[LoggedContext]:
    """The newest rows, of one chat or of all, those after one of them. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        rows = store.listing(connection, chat_id, limit, after)
        return [LoggedContext.model_validate(row._mapping) for row in rows]


def report(
    database: Database, tenant_id: str, context_id: str, given: AnswerIn, settings: Settings
) -> AnswerReceipt:
    """Keep what a bot answered to a context, once, and remember question and answer if that is wanted.

    The first answer stands; reporting it again may still remember it. What was recalled, and stands between our
    tags, is cut out of the answer. Raises `NotFound` for a context that was not recorded or is too old,
    `InvalidInput` when it shall be remembered and the context did not say for whom, `DatabaseUnavailable`.
    """
    answer = without_recalled(given.answer).strip()
    with database.tenant(tenant_id) as connection:
        row = store.get(connection, context_id)
        if row is not None:
            # forgetting of its chat or of whoever asked comes to its end first
            suppression_list.lock(connection, tenant_id, row.chat_id)
            row = store.get(connection, context_id)
        if row is None:
            raise NotFound(
                f"there is no context {context_id} in the query log: it was served while "
                f"BACKSCROLL_QUERY_LOG_ENABLED was off, is older than {settings.query_log_days} days, or was forgotten"
            )
        wanted = settings.remember_answers if given.remember is None else given.remember
        if given.remember and row.redacted_at is None and not row.user_id:
            raise InvalidInput(
                "remember: the context was asked without a user_id, so that there is nobody to remember it for; "
                "ask with user_id, or leave remember out",
                field="remember",
            )
        # Forgetting locks messages and memories before it looks into the log: whoever comes second sees the other.
        messages = [int(each) for each in _shown(row, "message")]
        remembered = [*_shown(row, "memory"), *_shown(row, "document")]
        held = store.hold(connection, messages, remembered)
        row = store.get(connection, context_id, locked=True)
        if row is None or row.redacted_at is not None or held < len(messages) + len(remembered):
            return AnswerReceipt(outcome="kept_out")
        if suppression.stopped(connection, row.asked_at, *_names(row.chat_id, row.user_id)):
            return AnswerReceipt(outcome="kept_out")
        known = row.answer is not None
        if not known:
            store.set_answer(connection, context_id, answer, given.used)
            memories.touch(connection, sorted(set(_shown(row, "memory")) & _ids(given.used or (), "memory")))
            counters.add(connection, tenant_id, {"answers_reported": 1})
        memory_id = row.memory_id
        if wanted and row.user_id and memory_id is None:
            memory_id = _remember(connection, tenant_id, row, row.answer if known else answer)
    return AnswerReceipt(
        outcome="known" if known else "stored", memory_id=None if memory_id is None else str(memory_id)
    )


def _ids(items: Iterable[str], kind: str) -> set[str]:
    """The ids of one kind among items by `kind:id`."""
    return {item.partition(":")[2] for item in items if item.startswith(f"{kind}:")}


def _shown(row: Row[Any], kind: str) -> list[str]:
    return sorted(_ids(row.shown, kind))


def _names(chat_id: str, user_id: str | None) -> list[Named]:
    """Whose tombstones keep a row's answer out."""
    names: list[Named] = [("tenant",), ("chat", chat_id)]
    if user_id:
        names += [("user", user_id), ("unremembered", user_id)]
    return names


def _remember(connection: Connection, tenant_id: str, row: Row[Any], answer: str) -> UUID | None:
    """Write question and answer as a memory of who asked, learned in the chat, that knows what it rests on."""
    chat = chats.get(connection, row.chat_id)
    content = f"{row.query}\n{answer}".encode()[:MAX_CONTENT_BYTES].decode(errors="ignore")
    memory = MemoryIn(
        scope="user",
        type="qa_turn",
        content=content,
        user_id=row.user_id,
        learned_in=row.chat_id,
        importance=1.0,
        said_at=row.asked_at,
        source="answer",
        # when any of this is forgotten, so is the memory; and nothing is learned from it a second time
        metadata={
            "context_id": row.context_id,
            "question_chars": len(row.query),
            "recalled": sorted(row.shown),
        },
    )
    language = chat.language if chat else DEFAULT_LANGUAGE
    written = remembering.write(connection, tenant_id, memory, language=language)
    if written.id is not None:
        store.set_memory(connection, row.context_id, written.id)
    return written.id
