"""A switch of the embedding model under load: from hashed words, or another model, to that of the settings, and back.

On a deployment of its own with all its processes: messages come in, questions are asked all the time, and the worker
that embeds is killed every few seconds. A vector of the wrong model is found by its size, or as it is the same in both
spaces; every question repeats a message's own words, which must be found by meaning.
"""

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import fmean

import psycopg
from sqlalchemy import Engine

from ops.client import Api
from ops.dev.bench import embed
from ops.dev.bench.figures import Figure
from ops.dev.chaos import cast as casting
from ops.dev.chaos.cast import API_TENANT, Cast
from ops.dev.eval.measures import share_found
from ops.dev.eval.samples import UNANSWERABLE, samples
from ops.dev.observe import Say, count, timed, wait
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
    old = (
        make_embedder(settings.model_copy(update={"embedding_model": start}))
        if start
        else DeterministicEmbedder()
    )
    if new.name == old.space.name:
        raise SettingsError(
            "BACKSCROLL_EMBEDDING_PROVIDER and BACKSCROLL_EMBEDDING_MODEL name no model to switch to"
        )
    say("starting")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-switching-", ignore_cleanup_errors=True) as folder,
        casting.playing(Path(folder), space=old.space) as cast,
        closing(Database.from_settings(cast.settings)) as database,
        migrate.connected(cast.postgres.dsn("owner")) as owner,
        cast.connect() as connection,
    ):
        run = _Switch(cast, database, owner, connection, new, say)
        run.fill(messages)
        return list(run.figures(kill_seconds))


class _Switch:
    """One run of the benchmark."""

    def __init__(
        self,
        cast: Cast,
        database: Database,
        owner: Engine,
        connection: psycopg.Connection,
        new: EmbeddingSpace,
        say: Say,
    ) -> None:
        self.cast, self.database, self.owner, self.new, self.say = cast, database, owner, new, say
        self.connection = connection
        self.api = Api(url=f"http://127.0.0.1:{cast.port}", api_key=cast.key)
        self.known: list[MessageIn] = []
        self.sent = self.kills = 0
        self.answers: list[bool] = []
        self.degraded = 0
        # run again and again while this waits, since only the main thread may start processes
        self._meanwhile: Callable[[], None] = lambda: None

    def fill(self, messages: int) -> None:
        """Import the sample chats and `messages` more, and wait until no job is due."""
        chats = [(sample.chat, sample.messages) for sample in samples()]
        self.known = list(embed.messages(messages))
        for chat, said in [*chats, (FILLED, self.known)]:
            for start in range(0, len(said), 100):
                accept.accept(self.database, API_TENANT, chat, said[start : start + 100])
        with make_app(self.cast.settings) as app:
            queues.wake_up(app, "ingest", times=4)
        self.say("placing, summarizing and embedding")
        self._settle()

    def figures(self, kill_seconds: float) -> Iterator[Figure]:
        """Switch and switch back, and yield what was measured."""
        yield self._recall("before")
        with _beside(self._speak, SPEAK_SECONDS), _beside(self._ask, ASK_SECONDS):
            began = time.monotonic()
            self._begin()
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
        self._settle()
        yield Figure("until the new space was complete", filled, "s")
        yield Figure("the switch, with the check that nothing is missing", ms, "ms")
        yield Figure("kills of the embedding worker", self.kills)
        yield Figure("messages that came in meanwhile", self.sent)
        yield Figure("questions asked meanwhile", len(self.answers))
        yield Figure("of them answered without vectors", self.degraded, most=0)
        right = fmean(self.answers)
        yield Figure("of them that found their message first", right, least=0.97)
        for what, statement in (("missing", _MISSING), ("doubled", _DOUBLED), ("of the wrong model", _MIXED)):
            yield Figure(f"vectors {what} in either space", count(self.connection, statement), most=0)

    def _begin(self) -> None:
        spaces.add(self.owner, self.database, [API_TENANT], self.new)
        current = Current.of(self.cast.settings)
        backfill.start(self.database, API_TENANT, BackfillRequest(kind="embed"), current)

    def _is_complete(self) -> bool:
        try:
            spaces.require_complete(self.database, [API_TENANT], self.new_stored())
        except Busy as error:
            self.say(str(error).partition(":")[0])
            return False
        return True

    def new_stored(self) -> EmbeddingSpace:
        """Return the new space as stored."""
        with self.database.tenant(API_TENANT) as connection:
            return spaces.find(connection, self.new.name).space

    def _recall(self, when: str) -> Figure:
        """Ask the questions of the sample chats over HTTP."""
        shares = []
        for sample in samples():
            for case in sample.cases:
                if case.kind == UNANSWERABLE:
                    continue
                self._meanwhile()
                query = ContextQuery(
                    chat_id=sample.chat.chat_id,
                    query=case.question,
                    budget_tokens=BUDGET,
                    include_history=False,
                    explain=True,
                )
                context = self.api.post("/v1/context", query, Context)
                hits = context.explain.messages if context.explain else []
                found = [hit.external_id for hit in hits if hit.external_id is not None]
                shares.append(share_found(case.evidence, found, FIRST))
        return Figure(f"recall among the first {FIRST} on the sample chats, {when}", fmean(shares))

    def _ask(self) -> None:
        wanted = random.choice(self.known)  # noqa: S311
        query = SearchQuery(chat_id=FILLED.chat_id, query=wanted.content, mode="similar", limit=1)
        found = self.api.post("/v1/search", query, SearchResult)
        self.degraded += bool(found.degraded)
        self.answers.append([hit.external_id for hit in found.hits] == [wanted.external_id])

    def _speak(self) -> None:
        (said,) = _talk(self.sent, 1)
        accept.accept(self.database, API_TENANT, TALKING, [said])
        self.sent += 1

    @contextmanager
    def _killed(self, seconds: float) -> Iterator[None]:
        """Kill the embedding worker again and again beside the block, each time so long after its first vector.

        Loading its model may take longer than that.
        """
        worker = self.cast.members["embed"]
        began: float | None = None
        done = count(self.connection, _WRITTEN)

        def kill() -> None:
            nonlocal began, done
            now = count(self.connection, _WRITTEN)
            if began is None and now > done:
                began = time.monotonic()
            if began is not None and time.monotonic() > began + seconds:
                worker.kill()
                worker.start()
                self.kills += 1
                began, done = None, now

        self._meanwhile = kill
        yield
        self._meanwhile = lambda: None

    def _wait(self, condition: Callable[[], bool]) -> None:
        if wait(condition, PATIENCE_SECONDS, pause=0.5, meanwhile=self._meanwhile) is None:
            raise TimeoutError("the deployment did not get done")

    def _settle(self) -> None:
        self._wait(lambda: not count(self.connection, _DUE))


def _talk(first: int, number: int) -> Sequence[MessageIn]:
    return [
        each.model_copy(update={"external_id": f"t{first + n}", "content": f"{each.content} ({first + n})"})
        for n, each in enumerate(embed.messages(number))
    ]


@contextmanager
def _beside(act: Callable[[], None], pause: float) -> Iterator[None]:
    """Do it again and again beside the block; what it raises is raised at its end."""
    ending, failed = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            while not ending.wait(pause):
                act()
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    if failed:
        raise failed[0]
