"""`backscroll cost`: what calls to language models have cost, and today's budget."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ops.console import rendering
from ops.console.command import Call, command

if TYPE_CHECKING:
    from pipeline.operations.costs import Costs, Figures

app = typer.Typer(rich_markup_mode="markdown")

HEADINGS = ("calls", "failed", "reused", "tokens in", "tokens out", "cost", "mean time")


@command(app, "backscroll cost --by model --days 7")
def cost(
    call: Call,
    by: Annotated[Literal["day", "model", "purpose", "tenant"], "What to add up by."] = "day",
    days: Annotated[int, typer.Option(min=1, max=3660, help="Days to look at, today included (UTC).")] = 30,
) -> None:
    """Show what language models have cost by day, model, purpose or tenant, and what today's budget leaves.

    `--by tenant` shows all tenants where **BACKSCROLL_MAINTENANCE_DATABASE_URL** is set and no `--tenant` is given,
    everything else is of one tenant. A call that has failed costs nothing as far as is known here; an answer that was
    kept from a worker that died is **reused**, without a call. Calls are kept for **BACKSCROLL_LLM_CALLS_DAYS**.
    """
    from pipeline.llm.budget import Budget
    from pipeline.operations import costs

    with call.opened(judges=True) as (settings, database):
        everybody = by == "tenant" and call.tenant is None and settings.maintenance_database_url is not None
        collected = costs.collect(
            database,
            settings.tenant,
            by=by,
            days=days,
            budget=Budget.of(settings),
            all_tenants=everybody,
        )
    nothing = f"No language model was called within {days:,} days."
    rows = [_cells(row) for row in [*collected.rows, replace(collected.total, name="total")]]
    table = rendering.rows((by, *HEADINGS), rows, right=HEADINGS)
    call.answer(asdict(collected), table if collected.rows else nothing, *_notes(collected))


def _cells(row: Figures) -> tuple[object, ...]:
    mean = "–" if row.mean_seconds is None else f"{row.mean_seconds:.1f} s"
    # of what is partly unknown at least this much
    cost = f"{rendering.dollars(row.cost)}{' + ?' if row.unpriced else ''}"
    return (
        *(row.name, row.calls, row.failed, row.reused, row.input_tokens, row.output_tokens),
        *(cost, mean),
    )


def _notes(costs: Costs) -> list[str]:
    today, notes = costs.today, []
    money = f" of {rendering.dollars(today.budget_cost)}" if today.budget_cost is not None else ""
    tokens = f" of {today.budget_tokens:,}" if today.budget_tokens is not None else ""
    if costs.rows or money or tokens:
        spent = f"{rendering.dollars(today.cost)}{money} and {today.tokens:,}{tokens} tokens"
        notes.append(f"\nSpent today: {spent}.")
    if costs.total.unpriced:
        notes.append(
            f"The price of {costs.total.unpriced:,} calls is not known: name their models in a file of "
            "BACKSCROLL_LLM_PRICES."
        )
    return notes
