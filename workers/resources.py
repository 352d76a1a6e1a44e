"""What one worker process holds: its settings, its connections, its models, each made at the first use.

Never made at import, and never shared over a fork: a child finds its parent's id in them and makes its own.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import structlog
from celery import Celery

from pipeline.clients.factory import make_embedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed, summarize
from pipeline.enrich.summarize import make_summarizer
from pipeline.erasure import forget
from pipeline.ingest import place
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Outcome, Policy
from pipeline.operations import backfill
from pipeline.store.claims import Turn
from pipeline.store.database import Database
from schemas.errors import DatabaseUnavailable, SchemaOutdated
from schemas.settings import Settings, load_settings
from workers import queues

log = structlog.get_logger(__name__)

# What was due, and all of it locked by others at that moment, is looked for again after so long.
LOCKED_SECONDS = 0.05

_lock = threading.Lock()
_current: "Resources | None" = None


class Resources:
    """The tools of one process."""

    def __init__(self, settings: Settings) -> None:
        self.pid = os.getpid()
        self.settings = settings
        self.database = Database.from_settings(settings, pool_size=8)
        self.rules = SessionPolicy.of(settings)
        # who was served last, by kind of work
        self.turns: dict[str, Turn] = {}

    @cached_property
    def embedder(self) -> Embedder:
        """The model that the settings name."""
        return make_embedder(self.settings)

    @cached_property
    def placer(self) -> Handler:
        """Does `ingest` work."""
        return place.placer(self.database, self.rules, self.settings.job_max_attempts)

    @cached_property
    def embed(self) -> Handler:
        """Does `embed` work."""
        return embed.embedder(self.database, self.embedder)

    @cached_property
    def summarizer(self) -> Handler:
        """Does `summarize` work."""
        return summarize.summarizer(
            self.database,
            make_summarizer(self.settings.session_summary_model),
            min_messages=self.settings.session_min_messages,
            version=self.settings.session_summary_version,
            rolling_messages=self.settings.session_rolling_messages,
            rolling_tokens=self.settings.session_rolling_tokens,
        )

    @cached_property
    def backfiller(self) -> Handler:
        """Does `backfill` work."""
        current = backfill.Current(
            rules=self.rules,
            summary_version=self.settings.session_summary_version,
            min_messages=self.settings.session_min_messages,
        )
        return backfill.backfiller(self.database, current)

    @cached_property
    def forgetter(self) -> Handler:
        """Does `forget` work."""
        return forget.forgetter(self.database, self.rules)

    def policy(self, kind: str) -> Policy:
        """How work of a kind is claimed."""
        return Policy(
            batch=queues.OF_KIND[kind].batch,
            lease_seconds=self.settings.lease_seconds,
            max_attempts=self.settings.job_max_attempts,
        )


def current() -> Resources:
    """This process's resources."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = Resources(load_settings())
        return _current


@contextmanager
def waiting() -> Iterator[None]:
    """Log in one line that Postgres is away, or its tables too old; due work waits for the sweep.

    A task that failed would send its whole traceback to the worker's main process, which reads nothing while Redis is
    away as well; a time limit would then hit the child in the middle of it, and the rest be read as something else.
    """
    try:
        yield
    except SchemaOutdated as error:
        log.warning("waits_for_upgrade", error=str(error))
    except DatabaseUnavailable as error:
        log.warning("waits_for_postgres", error=str(error))


def run(app: Celery, kind: str, handler: Handler) -> Outcome:
    """Do one batch of a kind of work, then wake up whoever does what follows or is left."""
    held, outcome = current(), Outcome()
    with waiting():
        outcome = runner.run(held.database, kind, handler, held.policy(kind), held.turns)
    # what changes a session owes its summary only after a while, and the sweep finds it then
    debounced = "summarize" if held.settings.summarize_debounce_seconds and kind != "backfill" else None
    for follower in sorted(outcome.follows - {debounced}):
        queues.hint(app, follower)
    if outcome.more:
        if not outcome.claimed:
            time.sleep(LOCKED_SECONDS)
        queues.hint(app, kind)
    return outcome
