"""Budget and record calls to language models with their purpose and cost, and keep the answers until they are used.

A call is recorded before it is made, with estimates that count against the budget, and again when it has ended. The
second transaction keeps the answer: if a worker dies before it has saved its summary, the next attempt finds it.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from sqlalchemy import Connection

from pipeline.clients.protocols import ChatModel, Completion, Prompt
from pipeline.store import llm_calls
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.llm_calls import Entry, KeptAnswer, Spent
from pipeline.store.operations import counters
from pipeline.text import tokens
from schemas.base import in_words
from schemas.errors import BudgetSpent, ProviderRejected, ProviderUnavailable, SettingsError
from schemas.messages import clean_text
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What language models may cost each tenant a day (UTC); None: any amount."""

    # in US dollars
    cost: float | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the budget that the settings name."""
        return cls(cost=settings.llm_daily_budget, tokens=settings.llm_daily_tokens)

    def check(self, spent: Spent, *, cost: float | None, tokens: int) -> None:
        """Check a call of estimated cost and tokens against what was spent today.

        Raises `BudgetSpent` until the next day, and `ProviderRejected` for a call that exceeds a whole day's budget.
        """
        budgets = (
            (self.cost, cost or 0.0, spent.cost, "LLM_DAILY_BUDGET", "${:.4f}"),
            (self.tokens, tokens, spent.tokens, "LLM_DAILY_TOKENS", "{:,} tokens"),
        )
        for limit, amount, used, name, unit in budgets:
            if limit is None:
                continue
            setting, call = f"BACKSCROLL_{name}={limit:g}", unit.format(amount)
            if amount > limit:
                raise ProviderRejected(f"this call alone may take {call}, more than {setting} permits a day")
            if used + amount > limit:
                raise BudgetSpent(
                    f"{unit.format(used)} of {setting} are spent today, and this call may take {call}",
                    retry_after=spent.seconds_left,
                )


Dollars = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]

MILLION = 1_000_000
# A model's version, as in gpt-4.1-mini-2025-04-14: every version has the model's price.
_VERSION = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@checked(frozen=True, kw_only=True, config={"extra": "forbid"})
class Price:
    """What a model costs, in US dollars for a million tokens."""

    input: Dollars
    output: Dollars = 0.0


_table = TypeAdapter(dict[str, Price])


@dataclass(frozen=True, kw_only=True)
class Prices:
    by_model: Mapping[str, Price]

    def knows(self, model: str) -> bool:
        """Tell whether the price of a model is known."""
        return self._price(model) is not None

    def cost(self, model: str, input_tokens: float, output_tokens: float) -> float | None:
        """Return a call's cost in US dollars; None: the model's price is not known."""
        price = self._price(model)
        if price is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / MILLION

    def _price(self, model: str) -> Price | None:
        return self.by_model.get(model) or self.by_model.get(_VERSION.sub("", model))


def load_prices(path: Path | None = None) -> Prices:
    """Read the table, and the file that overrides it. Raises `SettingsError`, which names what is wrong in it."""
    built_in = _table.validate_python(tomllib.loads((files(__package__) / "prices.toml").read_text()))
    return Prices(by_model=built_in | (_read(path) if path is not None else {}))


def _read(path: Path) -> dict[str, Price]:
    named = f"BACKSCROLL_LLM_PRICES={path}"
    try:
        return _table.validate_python(tomllib.loads(path.read_text()))
    except ValidationError as error:
        raise SettingsError(f"{named}: {in_words(error.errors(), None)[0]}") from None
    except ValueError as error:
        raise SettingsError(f"{named} is no TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{named} cannot be read: {error.strerror}") from None


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
    answer = replace(completion, text=clean_text(completion.text))
    if answer.input_tokens or answer.output_tokens:
        return answer
    return replace(answer, input_tokens=entry.input_tokens, output_tokens=tokens.estimate(answer.text))


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
    if budget.cost is not None or budget.tokens is not None:
        llm_calls.lock_budget(connection, entry.tenant_id)
        spent = llm_calls.spent_today(connection, entry.tenant_id)
        budget.check(spent, cost=entry.cost, tokens=entry.input_tokens + entry.output_tokens)
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
