"""Record calls to language models with their purpose and cost, and keep the answers until they are used.

A call is recorded before it is made, with estimates that count against the budget, and again when it has ended. The
second transaction keeps the answer: if a worker dies before it has saved its summary, the next attempt finds it.
"""

import json
from dataclasses import dataclass, replace
from hashlib import sha256

from sqlalchemy import Connection

from pipeline.clients.protocols import ChatModel, Completion, Prompt
from pipeline.llm.budget import Budget, Prices, reserve
from pipeline.store import llm_calls
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.llm_calls import Entry, KeptAnswer
from pipeline.store.operations import counters
from pipeline.text import tokens
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.messages import clean_text


def entry_of(
    client: ChatModel,
    prompt: Prompt,
    prices: Prices,
    *,
    tenant_id: str,
    chat_id: str,
    purpose: str,
    claim: Claim | None,
) -> Entry:
    """Return the entry of a planned call, with estimates."""
    input_tokens = sum(tokens.estimate(part) for part in (prompt.system, *prompt.turns, _schema(prompt)))
    return Entry(
        tenant_id=tenant_id,
        chat_id=chat_id,
        purpose=purpose,
        claim=claim,
        model=client.model,
        provider=client.provider,
        prompt_hash=hash_of(prompt),
        input_tokens=input_tokens,
        output_tokens=prompt.max_tokens,
        cost=prices.cost(client.model, input_tokens, prompt.max_tokens),
    )


def hash_of(prompt: Prompt) -> bytes:
    """Return the key under which a prompt's answer is kept."""
    parts = [prompt.system, *prompt.turns, _schema(prompt), str(prompt.max_tokens)]
    return sha256(json.dumps(parts).encode()).digest()


def _schema(prompt: Prompt) -> str:
    return "" if prompt.schema is None else json.dumps(prompt.schema, sort_keys=True)


def as_kept(completion: Completion, entry: Entry) -> Completion:
    """Return an answer in storable form, with estimates of its tokens if the provider does not count them."""
    answered = clean_text(completion.text)
    if completion.input_tokens or completion.output_tokens:
        return replace(completion, text=answered)
    return replace(
        completion,
        text=answered,
        input_tokens=entry.input_tokens,
        output_tokens=tokens.estimate(answered),
    )


def find_answer(connection: Connection, entry: Entry) -> Completion | None:
    """Return the answer kept for a call, and record that it is reused.

    Raises `LeaseLost` when the call's job has lost its lease: its result would be dropped.
    """
    if entry.claim is None:
        return None
    jobs.keep(connection, entry.claim)
    answer = llm_calls.find_answer(connection, entry)
    if answer is not None:
        llm_calls.insert(connection, replace(entry, input_tokens=0, output_tokens=0, cost=0.0), reused=True)
        counters.add(connection, entry.tenant_id, {"model_answers_reused": 1})
    return answer and Completion(**answer._asdict())


def record_start(connection: Connection, entry: Entry, budget: Budget) -> Entry:
    """Record a call that is about to be made. Raises `BudgetSpent` and `ProviderRejected` as `Budget.check` does."""
    chats.ensure_tenant(connection, entry.tenant_id)
    total = entry.input_tokens + entry.output_tokens
    reserve(connection, entry.tenant_id, budget, cost=entry.cost, tokens=total)
    return llm_calls.insert(connection, entry)


def record_answer(
    connection: Connection, entry: Entry, completion: Completion, prices: Prices, seconds: float
) -> None:
    """Record an answer and its cost, and keep it for the call's job if that still holds its lease.

    The chat is locked first, as by an erasure in it, which then fences the chat's jobs.
    """
    read, written = completion.input_tokens, completion.output_tokens
    cost = prices.cost(entry.model, read, written)
    claim = entry.claim
    if claim is not None and llm_calls.hold_chat(connection, entry) and jobs.holds_claim(connection, claim):
        llm_calls.keep_answer(
            connection, entry, claim, KeptAnswer(completion.text, completion.truncated, read, written)
        )
    ended = replace(
        entry, input_tokens=read, output_tokens=written, cost=cost, request_id=completion.request_id
    )
    llm_calls.settle(connection, ended, "answered", seconds)
    spent = {"model_tokens": read + written, "model_cost_usd": cost or 0.0}
    counters.add(connection, entry.tenant_id, {"model_calls": 1, "model_seconds": seconds, **spent})


def record_failure(connection: Connection, entry: Entry, error: Exception, seconds: float) -> None:
    """Record that a call has failed; its cost is unknown."""
    outcome = "failed"
    if isinstance(error, ProviderUnavailable):
        outcome = "unavailable"
    elif isinstance(error, ProviderRejected):
        outcome = "rejected"
    request_id = getattr(error, "request_id", None)
    ended = replace(entry, input_tokens=0, output_tokens=0, cost=0.0, request_id=request_id)
    llm_calls.settle(connection, ended, outcome, seconds)
    counters.add(connection, entry.tenant_id, {"model_calls": 1, "model_failures": 1})


@dataclass(frozen=True, kw_only=True)
class EmbeddingCall:
    """A call to an embedding server."""

    model: str
    # its host and port
    provider: str
    # as counted by the server, or else estimated
    tokens: int
    seconds: float
    answered: bool
    # of the last request
    request_id: str | None = None


def record_embedding(database: Database, tenant_id: str, call: EmbeddingCall, prices: Prices) -> None:
    """Record a call to an embedding server, and its cost."""
    tokens = call.tokens if call.answered else 0
    cost = prices.cost(call.model, tokens, 0)
    entry = Entry(
        tenant_id=tenant_id,
        purpose="embedding",
        model=call.model,
        provider=call.provider,
        input_tokens=tokens,
        cost=cost,
        request_id=call.request_id,
    )
    with database.tenant(tenant_id) as connection:
        noted = llm_calls.insert(connection, entry)
        llm_calls.settle(connection, noted, "answered" if call.answered else "unavailable", call.seconds)
        spent = {"model_tokens": tokens, "model_cost_usd": cost or 0.0, "model_seconds": call.seconds}
        failed = {} if call.answered else {"model_failures": 1}
        counters.add(connection, tenant_id, {"model_calls": 1, **spent, **failed})
