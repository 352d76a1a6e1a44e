"""Wait, with progress bars, until imported messages are placed, summarized and embedded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from pipeline.operations import status
    from pipeline.store.database import Database


LOOK_SECONDS = 0.5
# A model may take this long to load for the first time on a machine.
SLOW_SECONDS = 20.0
# Nothing that works takes this long.
STALL_SECONDS = 90.0


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
    """Wait until no job of these chats is pending or time is up, and say if there is no progress.

    `pause` waits a number of seconds. Raises `DatabaseUnavailable`.
    """
    from pipeline.operations import status

    deadline = time.monotonic() + limit_seconds
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    moved_at = time.monotonic()
    warnings = [
        (
            SLOW_SECONDS,
            "Still waiting: at the first start the embedding model is loaded, which takes up to a minute.",
            "dim",
        ),
        (
            STALL_SECONDS,
            f"There was no progress for {STALL_SECONDS:.0f} s: check whether workers run with "
            "`backscroll status --workers`.",
            "yellow",
        ),
    ]
    before = None
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
            elif warnings and time.monotonic() - moved_at > warnings[0][0]:
                _, sentence, style = warnings.pop(0)
                bars.console.print(sentence, style=style)
            pause(LOOK_SECONDS)
