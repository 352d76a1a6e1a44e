"""Upgrades while workers run and messages come in: program or tables first, nothing is lost."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
from alembic import command
from alembic.config import Config
from psycopg.types.json import Jsonb

from ops.local import processes
from ops.local.embedded.ports import free_port
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.ingest.policy import Rules
from pipeline.text import tokens
from schemas.messages import MessageIn
from schemas.revision import REVISION
from tests.conftest import CHECKOUT, TENANT, alembic_config
from tests.ops.running import backscroll, until
from tests.processes.conftest import SECONDS, Deployment, clock, deployed, talk
from tests.processes.nodes import Process
from tests.test_sessions_stored import expected, stored

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
                while True:
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


@contextmanager
def door(deployment: Deployment) -> Iterator[str]:
    """The door as a process of its own; its address."""
    settings = deployment.settings.model_copy(update={"port": free_port()})
    environment = processes.environment(settings)
    process = Process("web", processes.api_command(settings), deployment.folder, environment)
    url = f"http://127.0.0.1:{settings.port}"

    def lives() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/healthz").status_code == 200
        return False

    try:
        until(lives, "the door lives", SECONDS)
        yield url
    finally:
        process.end()


@pytest.fixture
def early(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment whose database was filled by the first release, and has not been upgraded since."""
    with deployed(postgres, tmp_path_factory.mktemp("upgrading"), "upgrading") as deployment:
        config = alembic_config(postgres.dsn("owner", database=deployment.name))
        command.downgrade(config, "base")
        command.upgrade(config, "0001")
        with psycopg.connect(postgres.dsn("app", database=deployment.name)) as connection:
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", [TENANT])
            fill_as_the_first_release(connection)
        yield deployment


def fill_as_the_first_release(connection: psycopg.Connection) -> None:
    """One chat with sessions in every state and work owed for them, and one with messages not placed yet."""
    connection.execute("INSERT INTO tenants (tenant_id) VALUES (%s)", [TENANT])
    for chat, count in (("test:old", 20), ("test:waiting", 10)):
        connection.execute("INSERT INTO chats (tenant_id, chat_id) VALUES (%s, %s)", [TENANT, chat])
        for told in talk(count):
            connection.execute(
                "INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, sender_name, role, content, "
                "token_count, sent_at) VALUES (%s, %s, %s, %s, %s, 'user', %s, %s, %s)",
                [
                    TENANT,
                    chat,
                    *(told[name] for name in ("external_id", "sender_id", "sender_name", "content")),
                    tokens.estimate(told["content"]),
                    told["sent_at"],
                ],
            )
    connection.execute(
        "INSERT INTO arrivals SELECT tenant_id, chat_id, id FROM messages WHERE chat_id = 'test:waiting'"
    )
    connection.execute(
        "UPDATE chats c SET (message_count, lexeme_count) = (SELECT count(*), sum(length(tsv)) FROM messages m "
        "WHERE m.chat_id = c.chat_id) WHERE chat_id = 'test:old'"
    )
    sessions = connection.execute(
        "INSERT INTO conversation_sessions (tenant_id, chat_id, started_at, ended_at, message_count, token_count, "
        "participants, status) SELECT tenant_id, chat_id, min(sent_at), max(sent_at), count(*), sum(token_count), "
        "array_agg(DISTINCT sender_name), CASE WHEN max(sent_at) = max(max(sent_at)) OVER () THEN 'open' "
        "ELSE 'closed' END FROM messages WHERE chat_id = 'test:old' GROUP BY tenant_id, chat_id, "
        "date_trunc('hour', sent_at) ORDER BY 3 RETURNING id"
    ).fetchall()
    first, second, third, _ = (row[0] for row in sessions)
    connection.execute(
        "UPDATE conversation_sessions SET status = 'summarized', summary_text = 'They meet at the lighthouse.', "
        "topic_tags = %s, search_text = 'They meet at the lighthouse.', summary_model = 'extractive-v1', "
        "summary_version = 1, summary_revision = revision, summary_message_count = message_count, "
        "summary_token_count = token_count, summary_ended_at = ended_at, summary_created_at = now() "
        "WHERE id = ANY(%s)",
        [Jsonb(["lighthouse"]), [first, second]],
    )
    connection.execute(
        "INSERT INTO work (tenant_id, kind, key, due_at) SELECT tenant_id, 'embed', 'message:' || id, now() "
        "FROM messages WHERE chat_id = 'test:old' UNION ALL SELECT tenant_id, 'embed', 'session:' || id, now() "
        "FROM conversation_sessions WHERE status = 'summarized' UNION ALL VALUES (%s, 'ingest', 'test:waiting', now())",
        [TENANT],
    )
    # its worker was stopped for the upgrade, or died
    connection.execute(
        "INSERT INTO work (tenant_id, kind, key, claimed, attempts, token, due_at) VALUES "
        "(%s, 'summarize', %s, 1, 1, nextval('work_token'), now() + interval '1 second')",
        [TENANT, f"session:{third}"],
    )


def all_is_there(deployment: Deployment, chat: str, count: int) -> None:
    """Each message once, in the sessions of the pure function, embedded once; nothing owed, nothing given up."""
    deployment.wait_for(chat, count)
    told = talk(count)
    assert deployment.vectors_of(chat) == {message["external_id"]: 1 for message in told}
    parts = expected([MessageIn.model_validate(one) for one in told], Rules.of(deployment.settings))
    assert stored(deployment.database, chat) == [(*part[:-1], "summarized") for part in parts]


def test_a_database_of_the_first_release_is_upgraded_under_the_current_program(
    early: Deployment, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    # Given workers, clock and door of the current program on tables that are too old for them
    early.start_workers()
    with clock(early), door(early) as url:
        unready = httpx.get(f"{url}/readyz")
        assert unready.status_code == 503
        assert unready.json()["remedy"] == "run `backscroll db upgrade`"
        with Bots(early, url, "upgraded").sending() as bots:
            for worker in early.workers:
                until(
                    lambda worker=worker: any(  # type: ignore[misc]
                        "backscroll db upgrade" in str(r.get("error")) for r in early.records(worker)
                    ),
                    f"{worker} says what it waits for",
                    SECONDS,
                )
            until(lambda: early.redis.llen("backscroll.accept") > 0, "payloads wait in their queue", SECONDS)
            assert set(bots.statuses) == {503}
            assert early.dead_letters() == []
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
            for thread in upgrades:
                thread.join()
            assert codes == [0, 0]
            # Then door and workers go on by themselves
            until(lambda: 202 in bots.statuses, "the door takes messages", SECONDS)
            assert httpx.get(f"{url}/readyz").status_code == 200
        for chat, count in {"test:old": 20, "test:waiting": 10, **bots.sent}.items():
            all_is_there(early, chat, count)
    assert bots.sent.keys() == set(bots.chats)
    assert early.dead_letters() == []
    [(dead, old)] = early.query(
        "SELECT count(*) FILTER (WHERE dead_at IS NOT NULL), (SELECT count(*) FROM conversation_sessions "
        "WHERE summary_text = 'They meet at the lighthouse.') FROM work"
    )
    # what was summarized before is not done again
    assert (dead, old) == (0, 2)


NEXT = f"{int(REVISION) + 1:04}"
EXPANDS = f'''"""What the next release needs beside what there is.

Revision: {NEXT}, after {REVISION}
"""

from alembic import op

revision = "{NEXT}"
down_revision = "{REVISION}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE messages ADD COLUMN mood text")
    op.execute(
        "CREATE TABLE moods (tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE, mood text NOT NULL, "
        "PRIMARY KEY (tenant_id, mood))"
    )
    op.execute("ALTER TABLE moods ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE moods FORCE ROW LEVEL SECURITY")
    with op.get_context().autocommit_block():
        op.execute("CREATE INDEX CONCURRENTLY messages_mood ON messages (tenant_id, mood) WHERE mood IS NOT NULL")


def downgrade() -> None:
    op.execute("DROP TABLE moods")
    op.execute("ALTER TABLE messages DROP COLUMN mood")
'''


@pytest.fixture
def next_release(deployment: Deployment, tmp_path: Path) -> Iterator[Config]:
    """The migrations of the next release; afterwards the database is as it was."""
    folder = tmp_path / "migrations"
    shutil.copytree(CHECKOUT / "migrations", folder)
    (folder / "versions" / f"{NEXT}_next.py").write_text(EXPANDS)
    config = alembic_config(deployment.postgres.dsn("owner", database=deployment.name))
    config.set_main_option("script_location", str(folder))
    yield config
    command.downgrade(config, REVISION)


def test_workers_and_door_work_on_while_the_tables_of_the_next_release_come(
    deployment: Deployment, next_release: Config
) -> None:
    with clock(deployment), door(deployment) as url, Bots(deployment, url, "expanded").sending() as bots:
        until(lambda: len(bots.statuses) > 5, "messages come in", SECONDS)
        # Given somebody who reads for long, as a dump does: no table can be altered meanwhile
        with psycopg.connect(deployment.postgres.superuser_dsn(deployment.name)) as dump:
            dump.execute("SET idle_in_transaction_session_timeout = 0")
            dump.execute("LOCK TABLE messages IN ACCESS SHARE MODE")
            migration = threading.Thread(target=command.upgrade, args=[next_release, "head"])
            migration.start()
            before = len(bots.statuses)
            time.sleep(4)
            assert migration.is_alive()
            # messages come in all the while
            assert len(bots.statuses) > before + 2
        migration.join(SECONDS)
        assert deployment.query("SELECT version_num FROM alembic_version") == [(NEXT,)]
        # When a process of the older release starts on the newer tables
        deployment.workers["embed"].restart()
        deployment.workers["embed"].ready()
        assert httpx.get(f"{url}/readyz").status_code == 200
    assert set(bots.statuses) == {202}
    assert bots.slowest < DOOR_SECONDS
    for chat, count in bots.sent.items():
        all_is_there(deployment, chat, count)
