"""The resources of one worker process: settings, connections, models and handlers, each made at first use.

They are never made at import, and never shared over a fork: a child finds its parent's id in them and makes its own.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

import structlog
from celery import Celery

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.factory import make_embedder, make_embedder_for, make_learning_model, make_summary_model
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import Summarizer
from pipeline.enrich.summaries import rollups, summarize, summary_policy
from pipeline.enrich.summaries.summarizers import LanguageModelSummarizer, make_summarizer
from pipeline.enrich.summaries.summary_policy import Rollout, SummaryPolicy
from pipeline.erasure import forget
from pipeline.ingest import languages, place
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Outcome, Policy
from pipeline.llm.gateway import Gateway
from pipeline.llm.ledger import load_prices
from pipeline.memories import learn
from pipeline.memories.learn import Learning
from pipeline.operations import backfill, daily_digests
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from pipeline.store.jobs.claims import Turn
from pipeline.store.jobs.jobs import Claim
from schemas.errors import DatabaseUnavailable, ProviderUnavailable, SchemaOutdated
from schemas.kinds import BACKFILL, DIGEST, EMBED, EXTRACT, FORGET, INGEST, LANGUAGE, ROLLUP, SUMMARIZE
from schemas.load_settings import load_settings
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from workers import queues, tracing
from workers.claim_file import ClaimFile
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

# The pause before claiming again when all due jobs were locked by others.
LOCKED_SECONDS = 0.05

_lock = threading.Lock()
_current: "Resources | None" = None


class Resources:
    def __init__(self, settings: Settings) -> None:
        self.pid = os.getpid()
        self.settings = settings
        self.database = Database.from_settings(settings, pool_size=5)
        self.rules = SessionPolicy.of(settings)
        # the tenant and chat served last, by kind of job
        self.turns: dict[str, Turn] = {}
        self._handlers: dict[str, Handler] = {}

    @cached_property
    def claims(self) -> ClaimFile:
        """Return the file with what this process has claimed."""
        return ClaimFile(self.settings)

    @cached_property
    def embedder(self) -> Embedder:
        """Return the model that the settings name."""
        return make_embedder(self.settings)

    @cached_property
    def gateway(self) -> Gateway | None:
        """Return the gateway to the summarizing language model, if the settings name one."""
        client = make_summary_model(self.settings)
        return None if client is None else Gateway.of(self.settings, self.database, client)

    @cached_property
    def embedders(self) -> SpaceEmbedders:
        """Return the models of the spaces in the database."""
        return SpaceEmbedders(self._embedder_for)

    def _embedder_for(self, space: EmbeddingSpace) -> Embedder:
        # a tool may have replaced the settings' embedder
        if "embedder" in vars(self) and space.same_as(self.embedder.space):
            return self.embedder
        return make_embedder_for(space, self.settings)

    def handler(self, kind: str) -> Handler:
        if kind not in self._handlers:
            self._handlers[kind] = HANDLERS[kind](self)
        return self._handlers[kind]

    def policy(self, kind: str) -> Policy:
        """Return the claim policy for a job kind."""
        return Policy(
            batch=queues.batch_of(kind, self.settings),
            lease_seconds=self.settings.lease_seconds,
            max_attempts=self.settings.job_max_attempts,
            switched_off=self.settings.switched_off,
        )


def _make_summarizer(held: Resources) -> Summarizer:
    settings = held.settings
    return make_summarizer(
        settings.session_summary_model,
        held.gateway,
        timeout_seconds=settings.session_summary_timeout_seconds,
        context_tokens=settings.session_summary_context_tokens,
        answer_tokens=settings.llm_answer_tokens,
    )


def _summarizer(held: Resources) -> Handler:
    settings = held.settings
    return summarize.summarizer(
        held.database,
        _make_summarizer(held),
        SummaryPolicy(
            min_messages=settings.session_min_messages,
            version=settings.session_summary_version,
            rolling_messages=settings.session_rolling_messages,
            rolling_tokens=settings.session_rolling_tokens,
            named_rolling_messages=settings.named_rolling_messages(),
            session_lifetime=settings.session_lifetime(),
            rollout=Rollout(chats=settings.summary_canaries(), every=settings.session_summary_every),
            lease_seconds=settings.lease_seconds,
            extracts_when_spent=settings.llm_budget_spent == "extract",
            rollup_after_seconds=summary_policy.SETTLE_SECONDS if settings.rolls_up() else None,
        ),
    )


def _roller(held: Resources) -> Handler:
    settings = held.settings
    client = _make_summarizer(held)
    return rollups.roller(
        held.database,
        client if settings.rolls_up() and isinstance(client, LanguageModelSummarizer) else None,
        version=settings.session_summary_version,
        model_chats=settings.summary_canaries(),
        lease_seconds=settings.lease_seconds,
    )


def _learner(held: Resources) -> Handler:
    settings = held.settings
    rules = RequestExtractor()
    client = make_learning_model(settings)
    model = client and LanguageModelExtractor(
        Gateway.of(settings, held.database, client),
        timeout_seconds=settings.session_summary_timeout_seconds,
        context_tokens=settings.session_summary_context_tokens,
        answer_tokens=settings.llm_answer_tokens,
    )
    return learn.learner(
        held.database,
        Learning(
            extractor=model or rules,
            rules=rules,
            facts_per_session=settings.memory_facts_per_session,
            lease_seconds=settings.lease_seconds,
            model_chats=settings.summary_canaries(),
            extracts_when_spent=settings.llm_budget_spent == "extract",
        ),
    )


HANDLERS: dict[str, Callable[[Resources], Handler]] = {
    INGEST.name: lambda held: place.placer(held.database, held.rules, held.settings.job_max_attempts),
    EMBED.name: lambda held: embed.embedder(
        held.database,
        held.embedders,
        max_chars=held.settings.embedding_max_chars,
        prices=load_prices(held.settings.llm_prices),
    ),
    SUMMARIZE.name: _summarizer,
    ROLLUP.name: _roller,
    EXTRACT.name: _learner,
    BACKFILL.name: lambda held: backfill.backfiller(held.database, Current.of(held.settings)),
    LANGUAGE.name: lambda held: languages.labeller(held.database, held.rules),
    FORGET.name: lambda held: forget.forgetter(held.database, held.rules),
    DIGEST.name: lambda held: daily_digests.sender(held.database, held.settings),
}


def current() -> Resources:
    """Return this process's resources."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = Resources(load_settings())
        return _current


@contextmanager
def waiting() -> Iterator[None]:
    """Log in one line that Postgres or a model is down, or the tables too old; due jobs wait for the sweep.

    A failing task would send its whole traceback to the worker's main process, which reads nothing while Redis is also
    down; a time limit would then interrupt the child while it sends, and the rest would be misread.
    """
    try:
        yield
    except SchemaOutdated as error:
        log.warning("waits_for_upgrade", error=str(error))
    except DatabaseUnavailable as error:
        log.warning("waits_for_postgres", error=str(error))
    except ProviderUnavailable as error:
        # an embedding server whose dimensions must be measured first
        log.warning("waits_for_provider", error=str(error))


def progress(kind: str) -> str | None:
    """Describe the progress of long jobs of a kind, for task monitoring; None: there are none."""
    if kind != BACKFILL.name:
        return None
    with waiting():
        return "; ".join(backfill.progress(current().database)) or None
    return None


@contextmanager
def _holding(held: Resources, kind: str, claims: Sequence[Claim]) -> Iterator[None]:
    with held.claims.holding(claims), tracing.batch(kind, claims):
        yield


def run(app: Celery, kind: str) -> Outcome:
    """Run one batch of jobs of a kind, then wake the workers of jobs that follow or are left."""
    held, outcome = current(), Outcome(waits="see the log of this worker")
    with waiting():
        # without pgvector vectors cannot be stored: jobs stay pending until `db upgrade` finds the extension
        if kind != EMBED.name or held.database.has_vectors():
            outcome = runner.run(
                held.database,
                kind,
                held.handler(kind),
                held.policy(kind),
                held.turns,
                partial(_holding, held, kind),
            )
    # a changed session's summary is due only after a while, when the sweep finds it
    debounced = {SUMMARIZE.name, EXTRACT.name} if held.settings.summarize_debounce_seconds else set()
    for follower in sorted(
        outcome.follows - (debounced if kind not in {BACKFILL.name, EMBED.name} else set())
    ):
        queues.wake_up(app, follower)
    if outcome.more:
        if not outcome.claimed:
            time.sleep(LOCKED_SECONDS)
        queues.wake_up(app, kind)
    return outcome
