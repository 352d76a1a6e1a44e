"""Hints from the door: sent by a thread of their own, so that no request waits for Redis or fails with it."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

import structlog
from celery import Celery

from workers import queues

log = structlog.get_logger(__name__)

MAX_PENDING = 100
"""Hints that wait for a slow Redis; more say nothing that these do not."""


class Hinter:
    """Sends hints in the order they were asked for, each with the id of its request."""

    def __init__(self, celery: Celery) -> None:
        self.celery = celery
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hints")
        self._room = threading.BoundedSemaphore(MAX_PENDING)

    def hint(self, kind: str) -> None:
        """Tell the workers of a kind that work is owed, soon, and without waiting for it.

        A hint that is lost costs the time until the next sweep.
        """
        if not self._room.acquire(blocking=False):
            return
        # the context carries the request's id, which publishing puts into the hint's headers
        self._sender.submit(copy_context().run, queues.hint, self.celery, kind).add_done_callback(self._sent)

    def close(self) -> None:
        """Send the hint that is on its way and drop the others."""
        self._sender.shutdown(wait=True, cancel_futures=True)
        self.celery.close()

    def _sent(self, hint: Future[None]) -> None:
        self._room.release()
        if not hint.cancelled() and (error := hint.exception()):
            log.error("hint_failed", exc_info=error)
