"""What language models may cost a tenant a day."""

from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection

from pipeline.store.models import llm_calls
from pipeline.store.models.llm_calls import Spent
from schemas.errors import BudgetSpent, ProviderRejected
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
