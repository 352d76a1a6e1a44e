"""Send wake-ups from the HTTP API in a separate thread: no request waits for Redis or fails with it.

A wake-up says that jobs of a kind are due, and a worker claims all of them: ten per second are enough, however many
requests enqueue jobs.
"""

import threading
from contextvars import Context, copy_context

import structlog
from celery import Celery

from workers import queues

log = structlog.get_logger(__name__)

APART_SECONDS = 0.1
"""The pause after sending, in which wake-ups of a kind are collected into one."""
CLOSING_SECONDS = 5.0


class Waker:
    """Keeps at most one wake-up of each kind waiting, with the id of the request that asked for it first."""

    def __init__(self, celery: Celery) -> None:
        self.celery = celery
        # wake-ups to send, in the order of the requests
        self._pending: dict[str, Context] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._sender = threading.Thread(target=self._send, name="wake-ups", daemon=True)
        self._sender.start()

    def wake_up(self, kind: str) -> None:
        """Wake the workers of a kind: now, or `APART_SECONDS` after the last wake-ups.

        Never blocks. The next sweep makes up for a lost wake-up.
        """
        with self._changed:
            if kind not in self._pending:
                # the context carries the request's id, which publishing puts into the task's headers
                self._pending[kind] = copy_context()
                self._changed.notify()

    def close(self) -> None:
        """Send waiting wake-ups and end; while Redis is down they are left to the sweep."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._sender.join(CLOSING_SECONDS)
        self.celery.close()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closing)
                pending, self._pending = self._pending, {}
            if not pending:
                return
            for kind, context in pending.items():
                try:
                    context.run(queues.wake_up, self.celery, kind)
                except Exception as error:
                    log.error("wake_up_failed", kind=kind, exc_info=error)  # noqa: TRY400 - one line, no traceback
            with self._changed:
                self._changed.wait_for(lambda: self._closing, APART_SECONDS)
