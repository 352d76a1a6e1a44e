"""The context for a bot's answer: retrieve, rank, drill down, assemble. The thin module that bots import.

    from pipeline.context import build_context, more, search

`build_context` is what a bot puts before its model when it must answer. `search` (`pipeline.retrieval.search`) finds
messages or sessions in one of five modes. `more` (`pipeline.retrieval.paging`) fetches what was said around what an
earlier
answer showed. All three take the process's own `Database`, `Embedder` and `Settings`; see `ops/guide/bots.md`.
"""

from time import monotonic

import structlog
from sqlalchemy.exc import SQLAlchemyError

from pipeline.clients.protocols import Embedder, Reranker
from pipeline.clients.tokenizers import tokenizer_for
from pipeline.context import query_log
from pipeline.context.build import answer, question_block
from pipeline.jobs.runner import reason_of
from pipeline.retrieval import gather, prepare
from pipeline.retrieval.gather import Found
from pipeline.retrieval.paging import more
from pipeline.retrieval.prepare import Asked
from pipeline.retrieval.search import search
from pipeline.store import counters, memories
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.context import Context
from schemas.errors import Retryable
from schemas.payloads import ContextQuery
from schemas.settings import Settings

__all__ = ["build_context", "more", "search"]

log = structlog.get_logger(__name__)


def build_context(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    *,
    embedder: Embedder | None,
    settings: Settings,
    reranker: Reranker | None = None,
) -> Context:
    """What a bot puts before its model to answer a query, within the token budget and with reasons.

    `embedder` is the process's own; without it, or when it does not answer, keywords find alone and
    `degraded` says so. `reranker` reads the best messages once more. Raises `NotFound` for an unknown chat,
    `InvalidInput` for a profile, parameter or budget that cannot be, `DatabaseUnavailable`.
    """
    started = monotonic()
    budget, tokenizer = query.budget_tokens or settings.context_budget_tokens, tokenizer_for(query.model)
    question_block(query, budget, tokenizer)
    asked = prepare.ask(database, tenant_id, query, embedder, settings)
    # it may have another id now
    query = query.model_copy(update={"chat_id": asked.chat.chat_id})
    found = gather.find(database, tenant_id, query, asked, settings, reranker)
    with asked.timed("assemble"):
        context = answer(query, asked, found, budget, tokenizer)
    with asked.timed("note"):
        _note(database, tenant_id, query, context, asked, found, settings, monotonic() - started)
    if context.explain is not None:
        context.explain.timings_ms.update(asked.timings_ms)
    return context


def _note(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    context: Context,
    asked: Asked,
    found: Found,
    settings: Settings,
    seconds: float,
) -> None:
    """Record the request, add it to the daily counters, and note which memories were shown.

    A context is served without that, too, and says so.
    """
    shown = {
        item.id for block in context.blocks if block.kind in {"memories", "documents"} for item in block.items
    }
    tokens = {f"tokens_{block.kind}": float(block.tokens) for block in context.blocks}
    try:
        with database.tenant(tenant_id) as connection:
            if settings.query_log_enabled:
                suppression_list.lock(connection, tenant_id, query.chat_id)
                remembered = prepare.remembers(asked.chat, settings)
                query_log.record(
                    connection, tenant_id, query, context, asked.now, seconds, remembered=remembered
                )
            if shown:
                memories.touch(connection, sorted(shown))
            counters.add(
                connection,
                tenant_id,
                {
                    "contexts": 1,
                    "context_seconds": seconds,
                    "contexts_degraded": bool(context.degraded),
                    "sessions_retrieved": len(found.sessions),
                    **tokens,
                },
            )
    except (Retryable, SQLAlchemyError) as error:
        log.warning("context_not_recorded", context_id=context.context_id, error=reason_of(error))
        context.degraded.append(
            "query_log: this context is not recorded, and an answer to it cannot be reported"
        )
