"""Wait with progress: until imported messages are usable, a receipt is done, or Ctrl-C may come."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ops import connection
from ops.console import rendering
from ops.console.command import Call
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.people import Receipt
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.operations import status
    from pipeline.store.connections.database import Database


LOOK_SECONDS = 0.5
# Even a model that is loaded for the first time on a machine does not take this long.
STALL_SECONDS = 60.0


def await_memory(
    database: Database,
    tenant_id: str,
    chat_ids: Sequence[str],
    console: Console,
    *,
    shown: bool,
    pause: Callable[[float], None] = time.sleep,
    limit_seconds: float = math.inf,
) -> status.Progress:
    """Wait until no job of these chats is pending or time is up, and say if there is no progress."""
    from pipeline.operations import status

    deadline = time.monotonic() + limit_seconds
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    moved_at = time.monotonic()
    before, warned = None, False
    with Progress(*columns, console=console, transient=True, disable=not shown) as bars:
        placed, summarized, embedded = (
            bars.add_task(name, total=None)
            for name in ("placed in sessions", "sessions summarized", "messages embedded")
        )
        while True:
            now = status.progress(database, tenant_id, chat_ids)
            bars.update(placed, completed=now.messages - now.waiting, total=now.messages or None)
            bars.update(summarized, completed=now.summarized, total=now.closed or None)
            bars.update(embedded, completed=now.embedded, total=now.to_embed or None)
            if now.complete or time.monotonic() > deadline:
                return now
            if now != before:
                before, moved_at = now, time.monotonic()
            elif not warned and time.monotonic() - moved_at > STALL_SECONDS:
                warned = True
                bars.console.print(_why_nothing_moves(database, tenant_id), style="yellow", highlight=False)
            pause(LOOK_SECONDS)


def _why_nothing_moves(database: Database, tenant_id: str) -> str:
    from pipeline.jobs import dead_letters
    from pipeline.jobs.dead_letters import JobFilter

    running, leased = dead_letters.listing(database, tenant_id, JobFilter(state="running"))
    (_, pending), (_, retrying) = (
        dead_letters.listing(database, tenant_id, JobFilter(state=state), limit=1)
        for state in ("pending", "retrying")
    )
    sentences = [f"There was no progress for {STALL_SECONDS:.0f} s."]
    if ends := [job.due_at for job in running if job.due_at]:
        sentences.append(
            f"{leased:,} jobs are claimed: a worker does them, or has died, and then another one does them once their "
            f"leases end, by {max(ends).astimezone(UTC):%H:%M:%S} UTC."
        )
    if retrying:
        sentences.append(
            f"{retrying:,} have failed and are tried again (`backscroll jobs list --state retrying`)."
        )
    if pending or not running:
        sentences.append(f"{pending:,} wait for a worker: do workers run (`backscroll status --workers`)?")
    return " ".join(sentences)


def await_receipt(database: Database, settings: Settings, receipt: Receipt) -> Receipt:
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


def answer_receipt(call: Call, receipt: Receipt, done: str) -> None:
    """Print what was removed."""
    cells = [(name.replace("_", " "), count) for name, count in sorted(receipt.counts.items())]
    call.answer(
        receipt,
        f"Receipt {receipt.id}: {done}, with what was sent until {rendering.moment(receipt.until)}.",
        rendering.rows(("what", "count"), cells, right=("count",)),
    )


@contextmanager
def interrupts_deferred() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C until the yielded function is called, or the end; a second one is raised at once.

    A statement that is broken off leaves a connection behind that can be used for nothing but an error.
    """
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    def let_through() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield let_through
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield let_through
    finally:
        signal.signal(signal.SIGINT, before)
    let_through()
