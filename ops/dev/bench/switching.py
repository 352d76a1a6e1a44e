"""A switch of the embedding model under load: from hashed words, or another model, to that of the settings, and back.

On a deployment of its own with all its processes: messages come in, questions are asked all the time, and the worker
that embeds is killed every few seconds. A vector of the wrong model is found by its size, or as it is the same in both
spaces; every question repeats a message's own words, which must be found by meaning.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from statistics import fmean

import psycopg
from sqlalchemy import Engine

from ops.client import Api
from ops.dev.bench import embed
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT, Deployment
from ops.dev.eval.measures import share_found
from ops.dev.eval.samples import UNANSWERABLE, samples
from ops.dev.figures import Figure
from ops.dev.observe import Say, beside, count, timed, wait
from ops.local import migrate
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.factory import make_embedder
from pipeline.ingest import accept
from pipeline.operations import backfill, spaces
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.context import Context
from schemas.errors import Busy, SettingsError
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery, SearchResult
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from workers import queues
from workers.app import make_app

SPEAK_SECONDS, ASK_SECONDS = 0.5, 0.1
"""Between two new messages, and between two questions."""
PATIENCE_SECONDS = 3600.0
BUDGET, FIRST = 800, 10
"""Tokens of a context, and how many of its messages are looked at for the recall."""
FILLED, TALKING = ChatIn(chat_id="bench:filled"), ChatIn(chat_id="bench:talking")
_MISSING = """
    SELECT count(*) FROM messages m CROSS JOIN embedding_spaces e WHERE m.content <> '' AND e.status <> 'retired'
        AND (SELECT count(*) FROM message_vectors v
            WHERE v.tenant_id = m.tenant_id AND v.message_id = m.id AND v.space_id = e.id) = 0
"""
_DOUBLED = """
    SELECT count(*) FROM (SELECT tenant_id, message_id, space_id FROM message_vectors
        GROUP BY 1, 2, 3 HAVING count(*) <> count(DISTINCT embedding::text)) doubled
"""
_MIXED = """
    SELECT count(*) FROM message_vectors v JOIN embedding_spaces e ON e.id = v.space_id
    WHERE vector_dims(v.embedding) <> e.dimensions OR EXISTS (SELECT FROM message_vectors o
        WHERE o.tenant_id = v.tenant_id AND o.message_id = v.message_id AND o.chunk_index = v.chunk_index
            AND o.space_id <> v.space_id AND o.embedding::text = v.embedding::text)
"""
_WRITTEN = "SELECT count(*) FROM message_vectors"
_DUE = "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"


def measure(
    settings: Settings, start: str | None, messages: int, kill_seconds: float, say: Say
) -> list[Figure]:
    """Measure a switch with `messages` stored beside the sample chats; call it from the main thread.

    It begins with the model `start` of the settings' provider, or with hashed words. Raises `SettingsError` where the
    settings' embedder is the one that it begins with, and what starting the deployment raises.
    """
    new = make_embedder(settings).space
    old = DeterministicEmbedder().space
    if start:
        old = make_embedder(settings.model_copy(update={"embedding_model": start})).space
    if new.name == old.name:
        raise SettingsError(
            "BACKSCROLL_EMBEDDING_PROVIDER and BACKSCROLL_EMBEDDING_MODEL name no model to switch to"
        )
    say("starting")
    with (
        deployments.running(space=old) as deployment,
        closing(Database.from_settings(deployment.settings)) as database,
        migrate.connected(deployment.postgres.dsn("owner")) as owner,
        deployment.connect() as connection,
    ):
        run = _Switch(
            deployment=deployment,
            database=database,
            owner=owner,
            connection=connection,
            api=Api(url=f"http://127.0.0.1:{deployment.port}", api_key=deployment.key),
            new=new,
            say=say,
            known=list(embed.messages(messages)),
        )
        run.fill()
        return list(run.figures(kill_seconds))


@dataclass(kw_only=True)
class _Switch:
    """One run of the benchmark."""

    deployment: Deployment
    database: Database
    owner: Engine
    connection: psycopg.Connection
    api: Api
    new: EmbeddingSpace
    say: Say
    known: list[MessageIn]
    sent: int = 0
    kills: int = 0
    answers: list[bool] = field(default_factory=list)
    degraded: int = 0
    # run again and again while this waits, since only the main thread may start processes
    meanwhile: Callable[[], None] = lambda: None

    def fill(self) -> None:
        """Import the sample chats and the messages to be asked for, and wait until no job is due."""
        chats = [(sample.chat, sample.messages) for sample in samples()]
        for chat, messages in [*chats, (FILLED, self.known)]:
            for start in range(0, len(messages), 100):
                accept.accept(self.database, API_TENANT, chat, messages[start : start + 100])
        with make_app(self.deployment.settings) as app:
            queues.wake_up(app, "ingest", times=4)
        self.say("placing, summarizing and embedding")
        self._wait(lambda: not count(self.connection, _DUE))

    def figures(self, kill_seconds: float) -> Iterator[Figure]:
        """Switch and switch back, and yield what was measured."""
        yield self._recall("before")
        with beside(self._speak, SPEAK_SECONDS), beside(self._ask, ASK_SECONDS):
            began = time.monotonic()
            spaces.add(self.owner, self.database, [API_TENANT], self.new)
            current = Current.of(self.deployment.settings)
            backfill.start(self.database, API_TENANT, BackfillRequest(kind="embed"), current)
            with self._killed(kill_seconds):
                self.say("filling the new space")
                yield self._recall("while it is filled")
                self._wait(self._is_complete)
                filled = time.monotonic() - began
                ms, _ = timed(spaces.activate, self.owner, self.database, [API_TENANT], self.new.name)
                self.say("asking in the new space")
                yield self._recall("after the switch")
                spaces.rollback(self.owner)
                self.say("asking in the old space again")
                yield self._recall("after the rollback")
        self._wait(lambda: not count(self.connection, _DUE))
        yield Figure("until the new space was complete", filled, "s")
        yield Figure("the switch, with the check that nothing is missing", ms, "ms")
        yield Figure("kills of the embedding worker", self.kills)
        yield Figure("messages that came in meanwhile", self.sent)
        yield Figure("questions asked meanwhile", len(self.answers))
        yield Figure("of them answered without vectors", self.degraded, most=0)
        # few would by vectors of another model; among many that are alike a model may find another first
        yield Figure("of them that found their message first", fmean(self.answers), least=0.8)
        for what, statement in (("missing", _MISSING), ("doubled", _DOUBLED), ("of the wrong model", _MIXED)):
            yield Figure(f"vectors {what} in either space", count(self.connection, statement), most=0)

    def _is_complete(self) -> bool:
        with self.database.tenant(API_TENANT) as connection:
            stored = spaces.find(connection, self.new.name).space
        try:
            spaces.require_complete(self.database, [API_TENANT], stored)
        except Busy as error:
            self.say(str(error).partition(":")[0])
            return False
        return True

    def _recall(self, when: str) -> Figure:
        """Ask the questions of the sample chats over HTTP."""
        shares = []
        for sample in samples():
            for case in sample.cases:
                if case.kind == UNANSWERABLE:
                    continue
                self.meanwhile()
                query = ContextQuery(
                    chat_id=sample.chat.chat_id,
                    query=case.question,
                    budget_tokens=BUDGET,
                    include_history=False,
                    explain=True,
                )
                context = self.api.post("/v1/context", query, Context)
                hits = context.explain.messages if context.explain else []
                shares.append(share_found(case.evidence, [hit.external_id for hit in hits], FIRST))
        return Figure(f"recall among the first {FIRST} on the sample chats, {when}", fmean(shares))

    def _ask(self) -> None:
        wanted = random.choice(self.known)  # noqa: S311
        query = SearchQuery(chat_id=FILLED.chat_id, query=wanted.content, mode="similar", limit=1)
        result = self.api.post("/v1/search", query, SearchResult)
        self.degraded += bool(result.degraded)
        self.answers.append([hit.external_id for hit in result.hits] == [wanted.external_id])

    def _speak(self) -> None:
        message = self.known[self.sent % len(self.known)]
        message = message.model_copy(
            update={"external_id": f"t{self.sent}", "content": f"{message.content} ({self.sent})"}
        )
        accept.accept(self.database, API_TENANT, TALKING, [message])
        self.sent += 1

    @contextmanager
    def _killed(self, seconds: float) -> Iterator[None]:
        """Kill the embedding worker again and again beside the block, each time so long after its first vector.

        Loading its model may take longer than that.
        """
        began: float | None = None
        done = count(self.connection, _WRITTEN)

        def kill() -> None:
            nonlocal began, done
            now = count(self.connection, _WRITTEN)
            if began is None and now > done:
                began = time.monotonic()
            if began is not None and time.monotonic() > began + seconds:
                self.deployment.processes["embed"].restart()
                self.kills += 1
                began, done = None, now

        self.meanwhile = kill
        yield
        self.meanwhile = lambda: None

    def _wait(self, condition: Callable[[], bool]) -> None:
        if wait(condition, PATIENCE_SECONDS, pause=0.5, meanwhile=self.meanwhile) is None:
            raise TimeoutError("the deployment did not get done")
