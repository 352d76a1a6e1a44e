"""The embedding model is switched under load, with real processes: nobody who asks or talks notices."""

import hashlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, create_engine, text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest.policy import SessionPolicy
from pipeline.operations import backfill, spaces
from pipeline.operations.backfill_kinds import Current
from pipeline.store.jobs import backfills
from schemas.backfills import Backfill, BackfillRequest
from schemas.errors import Busy
from tests.api.conftest import served
from tests.conftest import EPOCH, TENANT
from tests.ops.running import until
from tests.processes.conftest import SECONDS, Deployment, clock, deployed

CHAT = "test:switched"
MESSAGES = 80
OLD, NEW = (DeterministicEmbedder(dimensions=size).space for size in (256, 384))
# Vectors in the new space at which the worker is killed.
KILLED_AT = 40


@pytest.fixture
def deployment(postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment of this story's own, as others count on one space."""
    with deployed(postgres, tmp_path, "switched") as running:
        running.start_workers(names=("ingest", "embed", "summarize", "backfill", "sweep"))
        with clock(running):
            yield running


@pytest.fixture
def owner(deployment: Deployment) -> Iterator[Engine]:
    url = deployment.postgres.dsn("owner", database=deployment.name)
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def said(number: int) -> str:
    """Words that no other message has, so many that none is mistaken for another in 256 dimensions."""
    name = hashlib.blake2b(str(number).encode(), digest_size=24).hexdigest()
    return f"{' and '.join(name[start : start + 12] for start in range(0, 48, 12))} lie at the quay"


def told(number: int) -> dict[str, Any]:
    return {
        "external_id": f"m{number}",
        "sender_id": "test:ann",
        "sender_name": "Ann",
        "content": said(number),
        "sent_at": (EPOCH + timedelta(minutes=number)).isoformat(),
    }


@contextmanager
def repeatedly(act: Callable[[], None], pause: float) -> Iterator[None]:
    """Do it again and again beside the block; what it raises is raised at the end."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.wait(pause):
                act()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


class Bot:
    """Talks and asks over HTTP, and notes what it is answered."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.numbers = itertools.count(MESSAGES)
        self.said = MESSAGES
        self.answers: list[tuple[str, str, list[str]]] = []

    def talk(self) -> None:
        number = next(self.numbers)
        body = {"v": 1, "chat": CHAT, "messages": [told(number)]}
        assert self.client.post("/v1/messages", json=body).status_code == 202
        self.said = number + 1

    def ask(self) -> None:
        number = random.randrange(MESSAGES)
        body = {"chat_id": CHAT, "query": said(number), "mode": "similar", "limit": 1}
        answer = self.client.post("/v1/search", json=body)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        self.answers.append((f"m{number}", found["hits"][0]["external_id"], found["degraded"]))


def filled(deployment: Deployment) -> int:
    """How many messages have a vector in the new space."""
    counted = deployment.query(
        "SELECT count(*) FROM message_vectors v JOIN embedding_spaces e ON e.id = v.space_id WHERE e.name = :name",
        name=NEW.name,
    )
    return int(counted[0][0])


def state_of(deployment: Deployment, filling: Backfill) -> str:
    with deployment.database.tenant(TENANT) as connection:
        found = backfills.get(connection, filling.id)
    assert found is not None
    return found.state


def test_the_model_is_switched_and_back_while_bots_talk_and_ask_and_the_worker_is_killed(
    deployment: Deployment, owner: Engine
) -> None:
    database, worker = deployment.database, deployment.workers["embed"]
    # Given a chat in the old space
    deployment.accept(CHAT, [told(number) for number in range(MESSAGES)])
    until(lambda: deployment.progress(CHAT).embedded == MESSAGES, "embedded", SECONDS)
    current = Current(rules=SessionPolicy.of(deployment.settings), summary_version=1, min_messages=4)

    def switch() -> bool:
        try:
            return spaces.activate(owner, database, [TENANT], NEW.name).status == "active"
        except Busy:
            return False

    with served(deployment.settings) as client:
        bot = Bot(client)
        until(lambda: client.get("/readyz").status_code == 200, "ready", SECONDS)
        bot.ask()
        # When a new one is filled beside it, and its worker killed half way
        with repeatedly(bot.talk, 0.2), repeatedly(bot.ask, 0.1):
            spaces.add(owner, database, [TENANT], NEW)
            request = BackfillRequest(kind="embed", batch_size=20, rate_per_second=60)
            filling = backfill.start(database, TENANT, request, current)
            until(lambda: filled(deployment) >= KILLED_AT, f"{KILLED_AT} vectors", SECONDS)
            worker.kill("SIGKILL")
            worker.restart()
            until(lambda: state_of(deployment, filling) == "completed", "filled", SECONDS)
            before = len(bot.answers)
            # and searches are switched to it
            until(switch, "switched", SECONDS)
            until(lambda: len(bot.answers) > before + 20, "asked after the switch", SECONDS)
            # and back
            assert spaces.rollback(owner).space.name == OLD.name
            until(lambda: len(bot.answers) > before + 40, "asked after the rollback", SECONDS)
    # Then every question found its message by meaning, whichever space it was compared in
    assert [each for each in bot.answers if each[0] != each[1] or each[2]] == []
    # and everything has exactly one vector in each space, also what was said meanwhile
    until(lambda: deployment.progress(CHAT).complete, "all done", SECONDS)
    counts = deployment.query(
        "SELECT space_id, count(*), count(DISTINCT message_id) FROM message_vectors GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row)[1:] for row in counts] == [(bot.said, bot.said)] * 2
    dimensions = text(
        "SELECT count(*) FROM message_vectors v JOIN embedding_spaces e ON e.id = v.space_id "
        "WHERE vector_dims(v.embedding) <> e.dimensions"
    )
    with database.tenant(TENANT) as connection:
        assert connection.execute(dimensions).scalar() == 0
