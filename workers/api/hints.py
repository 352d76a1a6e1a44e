"""Hints from the HTTP API, sent by a thread of their own: no request waits for Redis or fails with it.

However many requests owe work of a kind, its workers hear of it ten times a second at most: a hint says that there
is something to claim, and whoever claims takes all that there is.
"""

import threading
import time
from contextvars import Context, copy_context

import structlog
from celery import Celery

from workers import queues

log = structlog.get_logger(__name__)

APART_SECONDS = 0.1
"""Between two hints of a kind."""
CLOSING_SECONDS = 5.0


class Hinter:
    """Keeps at most one hint of each kind waiting, with the id of the request that asked for it first."""

    def __init__(self, celery: Celery) -> None:
        self.celery = celery
        # what is to be sent, in the order it was asked for
        self._pending: dict[str, Context] = {}
        self._sent_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._sender = threading.Thread(target=self._send, name="hints", daemon=True)
        self._sender.start()

    def hint(self, kind: str) -> None:
        """Tell the workers of a kind that work is owed: now, or when the time since the last hint is up.

        Never waits. A hint that is lost costs the time until the next sweep.
        """
        with self._changed:
            if kind not in self._pending:
                # the context carries the request's id, which publishing puts into the hint's headers
                self._pending[kind] = copy_context()
                self._changed.notify()

    def close(self) -> None:
        """Send what is pending and end; what a Redis that is away holds up is left to the sweep."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._sender.join(CLOSING_SECONDS)
        self.celery.close()

    def _send(self) -> None:
        while (following := self._next()) is not None:
            kind, context = following
            try:
                context.run(queues.hint, self.celery, kind)
            except Exception as error:
                log.error("hint_failed", kind=kind, exc_info=error)  # noqa: TRY400 - told as a line

    def _next(self) -> tuple[str, Context] | None:
        """Wait for the next hint whose time has come; None: there will be none."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = {
                    kind: self._sent_at.get(kind, now - APART_SECONDS) + APART_SECONDS
                    for kind in self._pending
                }
                kind = min(due, key=due.__getitem__, default=None)
                if kind is None:
                    if self._closing:
                        return None
                    self._changed.wait()
                elif due[kind] <= now or self._closing:
                    self._sent_at[kind] = now
                    return kind, self._pending.pop(kind)
                else:
                    self._changed.wait(due[kind] - now)
