"""The one way to a language model: every call goes through here, whatever it is for.

It keeps paid answers, enforces budgets, limits the rate over all workers, and records what every call has cost.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Self

from sqlalchemy import Connection

from pipeline.clients.protocols import ChatModel, Completion, Prompt
from pipeline.llm import ledger, limits
from pipeline.llm.ledger import Budget, Prices, load_prices
from pipeline.llm.limits import Limits, Ticket
from pipeline.store import llm_calls
from pipeline.store.connections.database import Database
from pipeline.store.jobs.jobs import Claim
from pipeline.store.llm_calls import Entry
from schemas.errors import ProviderFailed, ProviderUnavailable, Retryable, SettingsError
from schemas.settings import Settings

WAIT_SECONDS = 10.0
"""Longest wait for a call's turn, and at most a quarter of its timeout; then the call must be retried later."""
HURRY_SHARE = 0.7
"""A failed call without a job that used this share of its short timeout says nothing about the provider."""
SAVING_SECONDS = 20.0
"""How long to retry recording the end of a call: Postgres may be down, or the chat locked."""
SAVING_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """What a call is for."""

    tenant_id: str
    chat_id: str
    # `summary`, `extract`, `repair`, `hyde`, …: a row of `backscroll cost` for each
    purpose: str
    # the job that it is made for, whose next attempt finds the answer; None: the answer is not kept
    claim: Claim | None = None


class Gateway:
    """Calls one language model for all tenants."""

    def __init__(
        self,
        database: Database,
        client: ChatModel,
        *,
        prices: Prices | None = None,
        budget: Budget | None = None,
        shared: Limits | None = None,
    ) -> None:
        self._database = database
        self._client = client
        self.model = client.model
        self._prices = prices or load_prices()
        self._budget = budget or Budget()
        self._limits = shared or Limits()

    @classmethod
    def of(cls, settings: Settings, database: Database, client: ChatModel) -> Self:
        """Return the gateway with the prices, budget and limits of the settings. Raises `SettingsError`."""
        prices, budget = load_prices(settings.llm_prices), Budget.of(settings)
        if budget.cost is not None and not prices.knows(client.model):
            raise SettingsError(
                f"BACKSCROLL_LLM_DAILY_BUDGET is set, and the price of {client.model} is not known: add it to a file "
                "that BACKSCROLL_LLM_PRICES names, or set BACKSCROLL_LLM_DAILY_TOKENS instead"
            )
        return cls(database, client, prices=prices, budget=budget, shared=Limits.of(settings))

    def complete(self, call: ModelCall, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Return the model's answer, within `timeout_seconds` in all; no transaction may be open meanwhile.

        Raises `ProviderUnavailable`, `ProviderFailed` or `ProviderRejected` as the client does; `ProviderUnavailable`
        also while the provider is paused, and `ProviderFailed` also when it answers other prompts but not this one.
        Raises `BudgetSpent`, and `LeaseLost` when the call's job has lost its lease.
        """
        started = monotonic()
        begun = self._begin(call, prompt, timeout_seconds)
        if isinstance(begun, Completion):
            return begun
        entry, ticket = begun
        at = monotonic()
        left = timeout_seconds - (at - started)
        try:
            completion = self._ask(prompt, left)
        except Exception as error:
            seconds = monotonic() - at
            hurried = left <= 0 or (call.claim is None and seconds > HURRY_SHARE * timeout_seconds)
            if self._save(entry, self._failure_recorder(entry, ticket, error, seconds, hurried=hurried)):
                raise ProviderFailed(f"this prompt is not answered: {error}") from error
            raise
        completion = ledger.as_kept(completion, entry)
        self._save(entry, self._answer_recorder(entry, ticket, completion, monotonic() - at))
        return completion

    def _ask(self, prompt: Prompt, seconds: float) -> Completion:
        if seconds <= 0:
            raise ProviderUnavailable("no time was left to ask the model")
        return self._client.complete(prompt, timeout_seconds=seconds)

    def _begin(
        self, call: ModelCall, prompt: Prompt, timeout_seconds: float
    ) -> tuple[Entry, Ticket] | Completion:
        """Wait for the call's turn and record that it is made now, or return the answer kept from before."""
        entry = ledger.entry_of(self._client, prompt, self._prices, **vars(call))
        latest = monotonic() + min(WAIT_SECONDS, timeout_seconds / 4)
        while True:
            with self._database.tenant(call.tenant_id) as connection:
                if answer := ledger.find_answer(connection, entry):
                    return answer
                admitted = limits.enter(
                    connection,
                    entry.provider,
                    self._limits,
                    tokens=entry.input_tokens + entry.output_tokens,
                    timeout_seconds=timeout_seconds,
                )
                if isinstance(admitted, Ticket):
                    return ledger.record_start(connection, entry, self._budget), admitted
            if admitted.stopped or monotonic() + admitted.seconds > latest:
                raise ProviderUnavailable(admitted.reason, retry_after=admitted.retry_after)
            time.sleep(admitted.seconds)

    def _answer_recorder(
        self, entry: Entry, ticket: Ticket, completion: Completion, seconds: float
    ) -> Callable[[Connection], bool]:
        def record(connection: Connection) -> bool:
            ledger.record_answer(connection, entry, completion, self._prices, seconds)
            used = completion.input_tokens + completion.output_tokens
            limits.leave(connection, ticket, self._limits, answered=True, tokens=used)
            return False

        return record

    def _failure_recorder(
        self, entry: Entry, ticket: Ticket, error: Exception, seconds: float, *, hurried: bool
    ) -> Callable[[Connection], bool]:
        def record(connection: Connection) -> bool:
            ledger.record_failure(connection, entry, error, seconds)
            unavailable = isinstance(error, ProviderUnavailable)
            after = error.retry_after if isinstance(error, ProviderUnavailable) else None
            answered = None if unavailable and after is None and hurried else not unavailable
            limits.leave(connection, ticket, self._limits, answered=answered, retry_after=after)
            # a provider that names a retry time does not blame the prompt
            return unavailable and after is None and llm_calls.is_to_blame(connection, entry)

        return record

    def _save(self, entry: Entry, record: Callable[[Connection], bool]) -> bool:
        """Record how a call has ended, retrying while Postgres is down; return what the recorder returns."""
        # without a job no kept answer is lost, and somebody waits for the reply
        latest = monotonic() + (SAVING_SECONDS if entry.claim is not None else 0)
        while True:
            try:
                with self._database.tenant(entry.tenant_id) as connection:
                    return record(connection)
            except Retryable:
                if monotonic() > latest:
                    raise
                time.sleep(SAVING_PAUSE_SECONDS)
