"""Record what was asked, shown and answered; turn an answer into a memory.

A row holds ids, figures and the question, and no text that was shown. Questions of a forgotten user, or in a forgotten
chat, are not recorded, even if the context was in progress when they were forgotten.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import structlog
from sqlalchemy import Connection, Row
from sqlalchemy.exc import SQLAlchemyError

from pipeline.jobs.failures import reason_of
from pipeline.memories import statements
from pipeline.people import suppression
from pipeline.people.suppression import Named, is_kept_out
from pipeline.recall.gather import Ranked
from pipeline.recall.request import Request
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_rows
from pipeline.store.memories import memory_rows
from pipeline.store.operations import counters
from pipeline.store.search import query_log as log_rows
from pipeline.store.search.query_log import Served
from pipeline.store.sessions import rollups
from pipeline.text.fencing import without_recalled
from schemas.context import AnswerIn, AnswerReceipt, BlockKind, Context, LoggedContext, Source
from schemas.errors import InvalidInput, NotFound, Retryable
from schemas.languages import DEFAULT_LANGUAGE
from schemas.masking import has_mask
from schemas.memories import MemoryIn
from schemas.messages import MAX_CONTENT_BYTES
from schemas.payloads import ContextQuery
from schemas.settings import Settings

SOURCES: dict[BlockKind, Source] = {
    "history": "recent",
    "exchanges": "message",
    "rollups": "session",
    "related": "session",
    "memories": "memory",
    "documents": "document",
}
"""The source that a block's tokens count for; the question and the guardrails have none."""
BUCKET_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""Upper bounds of the latency histogram; each context is counted in one bucket alone."""
IN_BUCKET = "context_seconds_le_"
STAGES = {
    "embed": ("embed", "hyde"),
    "find": ("event", "hyde_search", "narrow", "retrieve"),
    "rank": ("rank", "reranker", "sessions", "rerank"),
    "pack": ("assemble",),
}
"""The stopwatch timings of each stage; the rest of a request's time is the stage `ask`."""


def bucket(bound: float) -> str:
    """Return the counter of contexts that took up to `bound` seconds, and longer than the bound before.

    >>> bucket(0.1), bucket(math.inf)
    ('context_seconds_le_0.1', 'context_seconds_le_inf')
    """
    return f"{IN_BUCKET}{bound:g}"


def retrieved(context: Context, ranked: Ranked) -> dict[str, float]:
    """Return the numbers of sessions, by their messages or summaries, and of memories that a context shows."""
    session_of = {str(hit.candidate.id): hit.candidate.session for hit in ranked.ranked}
    items = [item for block in context.blocks for item in block.items]
    sessions = {int(item.id) for item in items if item.kind == "session"}
    sessions |= {session_of.get(item.id, 0) for item in items if item.kind == "message"}
    memories = sum(item.kind in {"memory", "document"} for item in items)
    return {"sessions_retrieved": len(sessions - {0}), "memories_retrieved": memories}


def figures(context: Context, seconds: float, timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the counters of a context that took `seconds`."""
    stages = {
        stage: sum(timings_ms.get(name, 0.0) for name in names) / 1000 for stage, names in STAGES.items()
    }
    stages["ask"] = max(0.0, seconds - sum(stages.values()))
    tokens = {f"tokens_{block.kind}": float(block.tokens) for block in context.blocks}
    shows = any(block.kind in SOURCES and block.tokens for block in context.blocks)
    within = next(high for low, high in pairwise((-1.0, *BUCKET_SECONDS)) if low < seconds <= high)
    return {
        "contexts": 1,
        "contexts_degraded": bool(context.degraded),
        "contexts_empty": not shows,
        f"contexts_{context.evidence or 'unjudged'}": 1,
        "context_seconds": seconds,
        bucket(within): 1,
        **{f"context_{stage}_seconds": spent for stage, spent in stages.items()},
        **tokens,
    }


log = structlog.get_logger(__name__)

_REMEMBERED: tuple[Source, ...] = ("memory", "document")


def shown_in(context: Context) -> dict[str, str]:
    """Return the block of each item of a context, by `kind:id`; the first block if there are two."""
    items = [(item, block.kind) for block in reversed(context.blocks) for item in block.items]
    # a message quoted by a line counts as shown
    quoted: dict[str, str] = {f"message:{item.answers}": kind for item, kind in items if item.answers}
    return quoted | {f"{item.kind}:{item.id}": kind for item, kind in items}


def by_source(context: Context) -> tuple[dict[str, int], dict[str, int]]:
    """Count a context's tokens and its characters by source."""
    tokens, chars = Counter[str](), Counter[str]()
    for block in context.blocks:
        if source := SOURCES.get(block.kind):
            tokens[source] += block.tokens
            chars[source] += block.chars
    return tokens, chars


def record(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    context: Context,
    request: Request,
    settings: Settings,
    counts: Mapping[str, float],
) -> bool:
    """Record a served context, add it to the daily counters, and mark the memories that it showed; False on failure.

    Only its figures are recorded if memory is off or the asker is not to be remembered.
    `counts` are what it adds to them, `context_seconds` among them.
    """
    chat_id, asker = request.chat.chat_id, query.user_id or None
    shown = shown_in(context)
    used = sorted(_ids(shown, "memory") | _ids(shown, "document"))
    row = _row(query, context, request, counts["context_seconds"])

    def served(key: bytes | None) -> Served:
        return {
            "remembered": request.memory,
            "key": key,
            "place": suppression.hashes(key, ("tenant",), ("chat", chat_id)),
            "asker": suppression.hashes(key, ("user", asker), ("unremembered", asker)) if asker else [],
            "shown_memories": used,
            "counted": counts if not has_mask(query.query) else {**counts, "texts_masked": 1},
        }

    try:
        if not settings.query_log_enabled:
            with database.tenant(tenant_id) as connection:
                log_rows.record(connection, tenant_id, row, served(None), logs=False)
            return True
        # lock before reading who was forgotten, so that this sees what is committed while it waits
        row_served = served(request.snapshot.suppression_key)
        recorded = database.one_trip(log_rows.record_at_once(tenant_id, row, row_served))
        if recorded != (True,):
            with database.undecided() as connection:
                suppression_rows.lock_as_tenant(connection, tenant_id, chat_id)
                newer = served(suppression_rows.key(connection))
                log_rows.record(connection, tenant_id, row, newer, logs=True)
    except (Retryable, SQLAlchemyError, psycopg.Error) as error:
        log.warning("context_not_recorded", context_id=context.context_id, error=reason_of(error))
        return False
    return True


def _row(query: ContextQuery, context: Context, request: Request, seconds: float) -> dict[str, Any]:
    tokens, chars = by_source(context)
    return {
        "context_id": context.context_id,
        "chat_id": request.chat.chat_id,
        "user_id": query.user_id or None,
        "agent_id": query.agent_id or None,
        "session_key": query.session_key,
        "profile": query.profile,
        "asked_at": request.snapshot.now,
        "query": query.query,
        "shown": shown_in(context),
        "tokens": tokens,
        "chars": chars,
        "used_tokens": context.used_tokens,
        "budget": context.budget,
        "latency_ms": round(seconds * 1000, 1),
        "evidence": context.evidence,
        # a provider's message may quote what it was sent
        "degraded": [reason.partition(":")[0] for reason in context.degraded],
    }


def listing(
    database: Database, tenant_id: str, chat_id: str | None, limit: int, after: str | None = None
) -> list[LoggedContext]:
    """List the newest rows of one chat or all, those after `after`.

    To a key for some chats they say nothing of memories that it is not shown in the chat, nor how many there were.
    Raises `NotFound` for its unknown chat, and `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        if chat_id is not None and (chat := chats.get_current(connection, chat_id)) is not None:
            chat_id = chat.chat_id
        rows = log_rows.listing(connection, chat_id, limit, after)
        logged = [LoggedContext.model_validate(row._mapping) for row in rows]
        if not database.only_chats:
            return logged
        seen, _ = statements.seen_in(connection, chat_id, None)
        remembered = sorted({i for row in logged for kind in _REMEMBERED for i in _ids(row.shown, kind)})
        kept = memory_rows.visible(connection, remembered, seen)
        return [_as_seen(row, kept) for row in logged]


def _as_seen(row: LoggedContext, kept: Container[str]) -> LoggedContext:
    """Return a row without memories that are not `kept`, and without the figures that count these."""

    def is_kept(item: str) -> bool:
        kind, _, identity = item.partition(":")
        return kind not in _REMEMBERED or identity in kept

    tokens, chars = (
        {source: n for source, n in figures.items() if source not in _REMEMBERED}
        for figures in (row.tokens, row.chars)
    )
    return row.model_copy(
        update={
            "shown": {item: block for item, block in row.shown.items() if is_kept(item)},
            "used": None if row.used is None else list(filter(is_kept, row.used)),
            "tokens": tokens,
            "chars": chars,
            "used_tokens": sum(tokens.values()),
        }
    )


def report(
    database: Database, tenant_id: str, context_id: str, body: AnswerIn, settings: Settings
) -> AnswerReceipt:
    """Store a bot's answer to a context, once, and remember question and answer if asked to.

    The first answer counts; reporting it again may still remember it. Recalled text between our tags is cut out of the
    answer. Raises `NotFound` for a context that was not recorded or is too old, `InvalidInput` if it shall be
    remembered and the context has no `user_id`, `DatabaseUnavailable`.
    """
    answer = without_recalled(body.answer).strip()
    with database.tenant(tenant_id) as connection:
        row = log_rows.get(connection, context_id)
        if row is not None:
            # wait until a running forgetting of its chat or asker has ended
            suppression_rows.lock(connection, tenant_id, row.chat_id)
            row = log_rows.get(connection, context_id)
        if row is None:
            raise NotFound(
                f"there is no context {context_id} in the query log: it was served while "
                f"BACKSCROLL_QUERY_LOG_ENABLED was off, is older than {settings.query_log_days} days, or was forgotten"
            )
        is_wanted = settings.session_memory_enabled and (
            settings.remember_answers if body.remember is None else body.remember
        )
        if body.remember and row.redacted_at is None and not row.user_id:
            raise InvalidInput(
                "remember: the context was asked without a user_id, so that there is nobody to remember it for; "
                "ask with user_id, or leave remember out",
                field="remember",
            )
        row = _locked(connection, row)
        if row is None:
            return AnswerReceipt(outcome="kept_out")
        was_known = row.answer is not None
        if not was_known:
            log_rows.set_answer(connection, context_id, answer, body.used)
            memory_rows.touch(
                connection, sorted(set(_shown(row, "memory")) & _ids(body.used or (), "memory"))
            )
            counters.add(connection, tenant_id, {"answers_reported": 1, "texts_masked": has_mask(answer)})
        memory_id = row.memory_id
        if is_wanted and row.user_id and memory_id is None:
            memory_id = _remember(connection, tenant_id, row, row.answer if was_known else answer)
    return AnswerReceipt(
        outcome="known" if was_known else "stored", memory_id=None if memory_id is None else str(memory_id)
    )


def remember_reported(connection: Connection, tenant_id: str, context_id: str) -> UUID | None:
    """Remember question and answer of a context whose answer was reported and not remembered; return the memory's id.

    None where there is no such context, or it is not to be remembered, as when something that it showed is gone.
    """
    row = log_rows.get(connection, context_id)
    if row is None:
        return None
    suppression_rows.lock(connection, tenant_id, row.chat_id)
    row = _locked(connection, row)
    if row is None or row.answer is None or not row.user_id or row.memory_id is not None:
        return None
    return _remember(connection, tenant_id, row, row.answer)


def _locked(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """Lock a row with the items it showed, and return it; None if one of them is gone, or it was forgotten.

    Call it under `suppression.lock` of its chat. Forgetting locks messages and memories before it reads the log: the
    second of the two sees the first.
    """
    messages = [int(id_) for id_ in _shown(row, "message")]
    remembered = [*_shown(row, "memory"), *_shown(row, "document")]
    weeks = [int(id_) for id_ in _shown(row, "rollup")]
    locked = log_rows.hold(connection, messages, remembered) + rollups.hold(connection, weeks)
    newer = log_rows.get(connection, row.context_id, locked=True)
    shown = len(messages) + len(remembered) + len(weeks)
    if newer is None or newer.redacted_at is not None or locked < shown:
        return None
    return None if is_kept_out(connection, newer.asked_at, *_names(newer.chat_id, newer.user_id)) else newer


def _ids(items: Iterable[str], kind: str) -> set[str]:
    """Return the ids of one kind among items by `kind:id`."""
    return {item.partition(":")[2] for item in items if item.startswith(f"{kind}:")}


def _shown(row: Row[Any], kind: str) -> list[str]:
    return sorted(_ids(row.shown, kind))


def _names(chat_id: str, user_id: str | None) -> list[Named]:
    """Return the subjects whose suppression keeps a row's answer out."""
    names: list[Named] = [("tenant",), ("chat", chat_id)]
    if user_id:
        names += [("user", user_id), ("unremembered", user_id)]
    return names


def _remember(connection: Connection, tenant_id: str, row: Row[Any], answer: str) -> UUID | None:
    """Write question and answer as a memory of the asker, learned in the chat, with what it is based on.

    The question is the first line.
    """
    chat = chats.get(connection, row.chat_id)
    question = " ".join(row.query.split())
    content = f"{question}\n{answer}".encode()[:MAX_CONTENT_BYTES].decode(errors="ignore")
    memory = MemoryIn(
        scope="user",
        type="qa_turn",
        content=content,
        user_id=row.user_id,
        learned_in=row.chat_id,
        importance=1.0,
        said_at=row.asked_at,
        source="answer",
        # if any of this is forgotten, so is the memory; and nothing is learned from it a second time
        metadata={
            "context_id": row.context_id,
            "question_chars": len(question),
            "recalled": sorted(row.shown),
        },
    )
    language = chat.language if chat else DEFAULT_LANGUAGE
    written = statements.write(connection, tenant_id, memory, language=language)
    if written.id is not None:
        log_rows.set_memory(connection, row.context_id, written.id)
    return written.id
