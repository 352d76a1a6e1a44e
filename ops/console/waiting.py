"""Wait, with progress bars, until imported messages are placed, summarized and embedded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
