"""From a question to its context: question, find, rank, choose, pack. The module that bots import.

    from pipeline.recall import build_context, more, search

`build_context` makes the context that a bot gives its model to answer from. Each stage returns a value that nothing
changes afterwards: `Request`, `CandidateSet`, `Ranked`, `Chosen`, `Context`. `search` (`pipeline.recall.search_modes`)
finds messages or sessions in one of five modes. `more` (there, too) fetches the messages around those already shown.
All three take the process's own `Database`, `Embedder` and `Settings` (`ops/guide/bots.md`).
"""

from time import monotonic

from pipeline.clients.by_space import Embedding
from pipeline.clients.known_models import tokenizer_for
from pipeline.clients.protocols import Reranker
from pipeline.llm.gateway import Gateway
from pipeline.recall import query_log, refine
from pipeline.recall.gather import Ranked, gather_ranked
from pipeline.recall.pack.pack import assemble, question_block
from pipeline.recall.query_log import figures, retrieved
from pipeline.recall.request import Request, Stopwatch, for_context
from pipeline.recall.search_modes import more, search
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.payloads import ContextQuery
from schemas.settings import Settings

__all__ = ["build_context", "more", "search"]


def build_context(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    *,
    embedder: Embedding | None,
    settings: Settings,
    reranker: Reranker | None = None,
    gateway: Gateway | None = None,
    records: bool = True,
) -> Context:
    """Build the context that a bot gives its model to answer a query, within the token budget and with reasons.

    `embedder` is the process's own; without it, or when it does not answer, only keywords are searched and `degraded`
    says so. `reranker` reads the best messages once more. `gateway` leads to the language model for `query.hyde`.
    Without `records` nothing is written: neither the query log nor a counter, and no memory counts as shown.
    Raises `NotFound` for an unknown chat, `InvalidInput` for an impossible profile or budget,
    `DatabaseUnavailable`.
    """
    started, stopwatch = monotonic(), Stopwatch()
    budget, tokenizer = query.budget_tokens or settings.context_budget_tokens, tokenizer_for(query.model)
    question_block(query, budget, tokenizer)

    def find(reader: Database) -> tuple[Request, Ranked, bool]:
        with reader.tenant(tenant_id, keeps_plans=True) as connection:
            request = for_context(connection, query, settings)
        request = refine.embed(reader, tenant_id, request, embedder, stopwatch)
        if query.hyde:
            off = settings.switched_off("hyde")
            request = refine.with_answer(reader, tenant_id, request, embedder, gateway, stopwatch, off)
        return request, gather_ranked(reader, tenant_id, request, stopwatch, reranker), reader.is_replica

    request, ranked, on_replica = database.reading(find)
    with stopwatch.timed("assemble"):
        context = assemble(query, request, ranked, budget, tokenizer)
    with stopwatch.timed("note"):
        counts = figures(context, monotonic() - started, stopwatch.timings_ms)
        counts |= retrieved(context, ranked) | ({"contexts_on_replica": 1.0} if on_replica else {})
        if records and not query_log.record(database, tenant_id, query, context, request, settings, counts):
            context.degraded.append(
                "query_log: this context is not recorded, and an answer to it cannot be reported"
            )
    if context.explain is not None:
        context.explain.timings_ms.update(stopwatch.timings_ms)
    return context
