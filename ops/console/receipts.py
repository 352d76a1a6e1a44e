"""Receipts of forgetting, removing and moving: waiting until the job is done, and printing what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import Call
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.people.forgetting import Receipt
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.store.connections.database import Database


def finished(database: Database, settings: Settings, receipt: Receipt) -> Receipt:
    """Do the receipt's job, or wait for a worker that does it; exit with 5 if it is given up."""
    from pipeline.erasure import forget

    receipt, reason = forget.finish(database, settings.tenant, receipt, settings)
    if reason is not None:
        rendering.warn(
            f"Receipt {receipt.id} is not finished: forgetting was given up ({reason}). "
            f"{receipt.counts.get('messages', 0):,} messages are gone, the others are still there, and nothing "
            "comes back meanwhile. Fix the cause, then let workers continue "
            f"(backscroll jobs replay forget {receipt.id}) or run the same command again.",
            style="red",
        )
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)
    connection.wake(settings, "summarize", "extract", "embed")
    return receipt


def answer(call: Call, receipt: Receipt, done: str) -> None:
    """Print what was removed."""
    cells = [(name.replace("_", " "), count) for name, count in sorted(receipt.counts.items())]
    call.answer(
        receipt,
        f"Receipt {receipt.id}: {done}, with what was sent until {rendering.moment(receipt.until)}.",
        rendering.rows(("what", "count"), cells, right=("count",)),
    )
