"""Upgrades while workers run and messages come in: program or tables first, nothing is lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
from alembic import command
from alembic.config import Config

from ops.local.embedded.postgres import EmbeddedPostgres
from schemas.messages import MessageIn
from tests.conftest import NEXT, alembic_config, next_release
from tests.harness.sessions import expected, stored
from tests.ops.running import backscroll
from tests.processes.conftest import SECONDS, Deployment, clock, deployed, door, talk
from tests.waiting import ended, rounds, until

MESSAGES = 20
# A migration tries for a lock for a second, and messages wait behind it as long; the rest is a busy machine.
DOOR_SECONDS = 6.0


@dataclass
class Bots:
    """Two bots, one at the door and one at the queue, that go on sending until they are told to end."""

    deployment: Deployment
    url: str
    name: str
    statuses: list[int] = field(default_factory=list)
    slowest: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def sending(self) -> Iterator["Bots"]:
        """While this holds they send; then they finish what they have begun."""
        threads = [threading.Thread(target=bot) for bot in (self._by_door, self._by_queue)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            for thread in threads:
                thread.join(SECONDS)

    @property
    def chats(self) -> list[str]:
        return [f"test:{self.name}-door", f"test:{self.name}-queue"]

    def _by_door(self) -> None:
        chat = self.chats[0]
        with httpx.Client(
            base_url=self.url, headers={"Authorization": "Bearer test-key"}, timeout=30
        ) as client:
            for number, message in enumerate(talk(100 * MESSAGES)):
                if self._ending.is_set() and number >= MESSAGES and number % 5 == 0:
                    break
                for _ in rounds("the door takes the message"):
                    began = time.monotonic()
                    answer = client.post("/v1/messages", json={"chat": chat, "messages": message})
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.statuses.append(answer.status_code)
                    if answer.status_code == 202:
                        break
                    assert answer.status_code == 503
                    # sooner than asked to, so that the door is tried at every moment
                    assert int(answer.headers["Retry-After"]) >= 1
                    time.sleep(0.2)
                self.sent[chat] = number + 1
                time.sleep(0.1)

    def _by_queue(self) -> None:
        chat, told = self.chats[1], talk(100 * MESSAGES)
        for start in range(0, len(told), 5):
            if self._ending.is_set() and start >= MESSAGES:
                break
            self.deployment.send(chat, told[start : start + 5])
            self.sent[chat] = start + 5
            time.sleep(0.5)


@pytest.fixture
def early(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment whose program is newer than its tables: there are none yet."""
    with deployed(postgres, tmp_path_factory.mktemp("upgrading"), "upgrading") as deployment:
        command.downgrade(alembic_config(postgres.dsn("owner", database=deployment.name)), "base")
        yield deployment


def all_is_there(deployment: Deployment, chat: str, count: int) -> None:
    """Each message once, in the sessions of the pure function, embedded once; nothing owed, nothing given up."""
    deployment.wait_for(chat, count)
    told = talk(count)
    assert deployment.vectors_of(chat) == {message["external_id"]: 1 for message in told}
    parts = expected([MessageIn.model_validate(one) for one in told])
    assert stored(deployment.database, chat) == [(*part[:-1], "summarized") for part in parts]


EXPANDS = """
op.execute("ALTER TABLE messages ADD COLUMN mood text")
op.execute(
    "CREATE TABLE moods (tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE, mood text NOT NULL, "
    "PRIMARY KEY (tenant_id, mood))"
)
op.execute("ALTER TABLE moods ENABLE ROW LEVEL SECURITY")
op.execute("ALTER TABLE moods FORCE ROW LEVEL SECURITY")
with concurrently():
    build("messages_mood", "messages (tenant_id, mood) WHERE mood IS NOT NULL")
"""


def expand(deployment: Deployment, url: str, release: Config) -> None:
    """Bring the tables of the next release in while workers and door work on."""
    with Bots(deployment, url, "expanded").sending() as bots:
        until(lambda: len(bots.statuses) > 5, "messages come in", SECONDS)
        # Given somebody who reads for long, as a dump does: no table can be altered meanwhile
        with psycopg.connect(deployment.postgres.superuser_dsn(deployment.name)) as dump:
            dump.execute("SET idle_in_transaction_session_timeout = 0")
            dump.execute("LOCK TABLE messages IN ACCESS SHARE MODE")
            migration = threading.Thread(target=command.upgrade, args=[release, "head"])
            migration.start()
            before = len(bots.statuses)
            time.sleep(4)
            assert migration.is_alive()
            # messages come in all the while
            assert len(bots.statuses) > before + 2
        migration.join(SECONDS)
        assert deployment.query("SELECT version_num FROM alembic_version") == [(NEXT,)]
        # When a process of the older release starts on the newer tables
        (worker,) = deployment.workers.values()
        worker.restart()
        worker.ready()
        assert httpx.get(f"{url}/readyz").status_code == 200
    # the clock goes on: a hint that came too early is made up for by its sweep
    for chat, count in bots.sent.items():
        all_is_there(deployment, chat, count)
    assert set(bots.statuses) == {202}
    assert bots.slowest < DOOR_SECONDS


def test_a_database_is_upgraded_under_the_current_program_and_then_under_an_older_one(
    early: Deployment, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    # Given a worker, clock and door of the current program on tables that are too old for them
    early.start_workers(together=True)
    with clock(early), door(early) as url:
        unready = httpx.get(f"{url}/readyz")
        assert unready.status_code == 503
        assert unready.json()["remedy"] == "run `backscroll db upgrade`"
        with Bots(early, url, "upgraded").sending() as bots:
            (worker,) = early.workers
            until(
                lambda: any("backscroll db upgrade" in str(r.get("error")) for r in early.records(worker)),
                f"{worker} says what it waits for",
                SECONDS,
            )
            until(lambda: early.redis.llen("backscroll.accept") > 0, "payloads wait in their queue", SECONDS)
            assert set(bots.statuses) == {503}
            # When they are brought up to date, by two at once
            settings = {
                "BACKSCROLL_OWNER_DATABASE_URL": postgres.dsn("owner", database=early.name),
                "BACKSCROLL_EMBEDDING_PROVIDER": "deterministic",
            } | {name: value for name, value in early.environment.items() if name.startswith("BACKSCROLL_")}
            codes: list[int] = []

            def upgrade() -> None:
                codes.append(backscroll("db", "upgrade", cwd=tmp_path, **settings).returncode)

            upgrades = [threading.Thread(target=upgrade) for _ in range(2)]
            for thread in upgrades:
                thread.start()
            ended(*upgrades)
            assert codes == [0, 0]
            # Then door and workers go on by themselves
            until(lambda: 202 in bots.statuses, "the door takes messages", SECONDS)
            assert httpx.get(f"{url}/readyz").status_code == 200
        for chat, count in bots.sent.items():
            all_is_there(early, chat, count)
        assert bots.sent.keys() == set(bots.chats)
        owner_url = postgres.dsn("owner", database=early.name)
        expand(early, url, next_release(owner_url, tmp_path / "migrations", EXPANDS))
    assert early.dead_letters() == []
