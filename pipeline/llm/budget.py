"""What language models may cost a tenant a day, by the prices of a table that a file may override."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from sqlalchemy import Connection

from pipeline.store import llm_calls
from pipeline.store.llm_calls import Spent
from schemas.base import in_words
from schemas.errors import BudgetSpent, ProviderRejected, SettingsError
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


def reserve(
    connection: Connection, tenant_id: str, budget: Budget, *, cost: float | None, tokens: int
) -> None:
    """Check a tenant's budget for a call that the same transaction records. Raises as `Budget.check` does."""
    if budget.cost is None and budget.tokens is None:
        return
    llm_calls.lock_budget(connection, tenant_id)
    budget.check(llm_calls.spent_today(connection, tenant_id), cost=cost, tokens=tokens)


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
    """Prices by model."""

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
