"""A real Postgres and a real Redis for the whole run, and a database of its own for each test."""

import gc
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import httpx
import psycopg
import pytest
import redis as redis_client
import structlog
from alembic import command
from alembic.config import Config
from hypothesis import settings as hypothesis_settings
from sqlalchemy import create_engine
from xdist.scheduler import LoadFileScheduling

from migrations import REVISION, partitioning
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import free_port
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.openai_chat import LEARNED
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store import vector_spaces
from pipeline.store.connections.database import Database
from schemas.messages import MessageIn
from schemas.settings import Settings
from tests import waiting

# the first example may read the files of a language, and the machine may be busy
hypothesis_settings.register_profile("any machine", deadline=None, max_examples=40)
hypothesis_settings.register_profile("nightly", deadline=None, max_examples=800)
hypothesis_settings.load_profile("any machine")
# httpx gives up after five seconds, which a busy machine may need for an answer
httpx._config.DEFAULT_TIMEOUT_CONFIG.read = float(waiting.SECONDS)

CHECKOUT = Path(__file__).parents[1]
TENANT = "default"
HELLO = "hello, привет, 你好 👋🏽"
EPOCH = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
MIGRATED = "backscroll"
PARTITIONS = 4
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
MEMORY_BYTES = 4 * 1024**3
# How work is claimed in tests: all of it, for a minute.
POLICY = Policy(batch=1000, lease_seconds=60, max_attempts=3)
# How sessions are cut in tests: as by default, and summarized at once.
SESSION_POLICY = SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0))
Templates = Callable[[str, Callable[[Database], None]], str]
_numbers = itertools.count(1)

# A run that was started in the background may have been told to ignore Ctrl-C, and what it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def alembic_config(owner_url: str) -> Config:
    """Alembic on this checkout's migrations and the given database."""
    config = Config(toml_file=str(CHECKOUT / "pyproject.toml"))
    config.attributes["url"] = owner_url.replace("postgresql://", "postgresql+psycopg://")
    return config


NEXT = f"{int(REVISION) + 1:04}"
_NEXT_MIGRATION = """
from alembic import op

from migrations.concurrently import build, concurrently

revision = "{next}"
down_revision = "{newest}"
branch_labels = None
depends_on = None


def upgrade() -> None:
{upgrade}


def downgrade() -> None:
{downgrade}
"""


def next_release(owner_url: str, folder: Path, upgrade: str, downgrade: str = "pass") -> Config:
    """Alembic on a copy of the migrations with one more, of revision `NEXT`, that does this."""
    shutil.copytree(CHECKOUT / "migrations", folder)
    steps = {"upgrade": indent(dedent(upgrade), "    "), "downgrade": indent(dedent(downgrade), "    ")}
    source = _NEXT_MIGRATION.format(next=NEXT, newest=REVISION, **steps)
    (folder / "versions" / f"{NEXT}_next.py").write_text(source)
    config = alembic_config(owner_url)
    config.set_main_option("script_location", str(folder))
    return config


# What takes longest, with the longest first: at the end it would run beside nothing. What begins with one of the
# paths that end in a slash runs in one process, one after the other: deployments that are busy at the same time
# would make each other wait, and their stories would share none. So does what imports torch, for ten seconds.
WITH_TORCH, TORCH = ("tests/commands/test_model.py",), "tests/clients/"
LONGEST = (
    "tests/processes/",
    "tests/clients/",
    "tests/events/test_payloads.py",
    "tests/ops/test_up.py",
    "tests/dev/eval/test_chats.py",
    "tests/chaos/",
    "tests/dev/eval/test_flatmates.py",
    "tests/commands/test_doctor.py",
    "tests/clients_python/test_bots.py",
    "tests/ops/test_backup.py",
    "tests/deployment/test_processes.py",
    "tests/dev/test_bench.py",
    "tests/text/test_growth.py",
    "tests/hostile/",
)


def _place(name: str) -> int:
    name = TORCH if name.startswith(WITH_TORCH) else name
    return next((place for place, begins in enumerate(LONGEST) if name.startswith(begins)), len(LONGEST))


# With `--fast`, stories that ask for one of these fixtures or marks, or are in one of these folders, are left out.
SERVERS = {"postgres", "redis"}
SLOW = {"model", "no_cover"}
PROGRAMS = ("chaos", "deployment", "dev", "local", "ops", "processes")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer `--fast`."""
    parser.addoption("--fast", action="store_true", help="only stories without servers, programs and models")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest; leave that out if only what is fast is wanted."""
    items.sort(key=lambda item: _place(item.nodeid))
    if config.getoption("fast"):
        left_out = [item for item in items if not _is_fast(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_fast(item)]


def _is_fast(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    marks = {mark.name for mark in item.iter_markers()}
    return (
        not fixtures & SERVERS
        and not marks & SLOW
        and item.path.parts[len(CHECKOUT.parts) + 1] not in PROGRAMS
    )


def pytest_collection_finish() -> None:
    """Look no more for garbage among what has been imported, which takes seconds each time."""
    gc.freeze()


class Scheduling(LoadFileScheduling):
    """The stories of a file run in one process, and so do those of the folders that say so."""

    def _split_scope(self, nodeid: str) -> str:
        place = _place(nodeid)
        together = place < len(LONGEST) and LONGEST[place].endswith("/")
        return LONGEST[place] if together else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Make what says which process runs which stories."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> None:
    """What a test before this one did to the logs is undone, and so is what it learned of an endpoint at this port."""
    structlog.reset_defaults()
    # tracebacks with the values of all variables take half a second each
    *before, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])
    LEARNED.clear()


@pytest.fixture(scope="session")
def memory_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is room for it: making and dropping databases is making and unlinking files."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="backscroll-") as folder:
            yield Path(folder)
    else:
        yield tmp_path_factory.mktemp("postgres")


@contextmanager
def migrated_postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server; its database `backscroll` is migrated and holds the deterministic space, nothing else."""
    with EmbeddedPostgres(folder, durable=False, host_tcp_port=free_port()) as server:
        owner_url = server.dsn("owner")
        command.upgrade(alembic_config(owner_url), "head")
        engine = create_engine(owner_url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            vector_spaces.register(connection, DeterministicEmbedder().space)
        engine.dispose()
        yield server


@pytest.fixture(scope="session")
def postgres(memory_folder: Path) -> Iterator[EmbeddedPostgres]:
    """The server for the whole run."""
    with migrated_postgres(memory_folder) as server:
        yield server


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """The broker."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server


# How a Redis that answers refuses, and what ends that.
REFUSALS = {
    "a replica": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "full": ("CONFIG SET maxmemory 100kb", "CONFIG SET maxmemory 0"),
    "no scripts": ("ACL SETUSER default -@scripting", "ACL SETUSER default +@all"),
    "no lists": ("ACL SETUSER default -lpush", "ACL SETUSER default +@all"),
    "no keys": ("ACL SETUSER default resetkeys ~other:*", "ACL SETUSER default allkeys"),
}


@contextmanager
def refusing(redis: EmbeddedRedis, how: str) -> Iterator[None]:
    """The Redis refuses what is written to it."""
    begin, end = (words.split() for words in REFUSALS[how])
    with redis_client.Redis.from_url(redis.url) as client:
        client.execute_command(*begin)
        try:
            yield
        finally:
            client.execute_command(*end)


@contextmanager
def copied(postgres: EmbeddedPostgres, name: str, template: str = MIGRATED) -> Iterator[str]:
    """A database of this name that holds what the other holds."""
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as connection:
        # without fsync it takes half of what a copy through the log takes
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE {template} OWNER backscroll_owner STRATEGY file_copy"
        )
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def templates(postgres: EmbeddedPostgres) -> Iterator[Templates]:
    """`templates(name, fill)`: the name of a database that was filled once, to be copied by each test."""
    with ExitStack() as stack:
        made = set()

        def template(name: str, fill: Callable[[Database], None]) -> str:
            if name not in made:
                made.add(stack.enter_context(copied(postgres, name)))
                database = Database(
                    postgres.dsn("app", database=name), postgres.dsn("maintenance", database=name)
                )
                fill(database)
                database.close()
            return name

        yield template


@pytest.fixture
def template() -> str:
    """What this test's database is a copy of; a module that begins with more than nothing says what."""
    return MIGRATED


def partition(owner_url: str, partitions: int = PARTITIONS) -> int:
    """Partition the messages of a database; how many there are."""
    engine = create_engine(owner_url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            return partitioning.partition(connection, partitions)
    finally:
        engine.dispose()


@pytest.fixture
def partitions() -> int:
    """In how many partitions the messages of this test's database are."""
    return 0


# A story that must also hold where messages were partitioned when they were there already.
also_partitioned = pytest.mark.parametrize("partitions", [0, PARTITIONS], ids=["one table", "partitioned"])


@pytest.fixture
def database_name(postgres: EmbeddedPostgres, template: str, partitions: int) -> Iterator[str]:
    """A database of this test's own."""
    with copied(postgres, f"test_{next(_numbers)}", template) as name:
        if partitions:
            partition(postgres.dsn("owner", database=name), partitions)
        yield name


def settings_of(postgres: EmbeddedPostgres, name: str, **changes: object) -> Settings:
    """Settings for the database of this name, on the deterministic embedder."""
    roles = {"": "app", "maintenance_": "maintenance", "owner_": "owner"}
    given: dict[str, Any] = {
        f"{begin}database_url": postgres.dsn(role, database=name) for begin, role in roles.items()
    }
    given |= {"embedding_provider": "deterministic", "api_key": "test-key", "summarize_debounce_seconds": 0}
    return Settings(_env_file=None, **(given | changes))


@pytest.fixture
def settings(
    postgres: EmbeddedPostgres, redis: EmbeddedRedis, database_name: str, tmp_path: Path
) -> Settings:
    """Settings for this test's database and the broker."""
    return settings_of(postgres, database_name, redis_url=redis.url, data_dir=tmp_path / "data")


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    """This test's database, reached as the app and maintenance roles."""
    database = Database.from_settings(settings)
    yield database
    database.close()


@pytest.fixture(scope="module")
def shared(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database for a module whose tests have tenants of their own."""
    with copied(postgres, f"shared_{next(_numbers)}") as name:
        database = Database(*(postgres.dsn(role, database=name) for role in ("app", "maintenance")))
        yield database
        database.close()


@pytest.fixture
def tenant() -> str:
    """A tenant of this test's own."""
    return f"tenant-{next(_numbers)}"


@pytest.fixture
def rules(settings: Settings) -> SessionPolicy:
    """How sessions are cut by default."""
    return SessionPolicy.of(settings)


@pytest.fixture
def policy() -> Policy:
    """How work is claimed in tests."""
    return POLICY


def at(minute: float) -> datetime:
    """So many minutes after `EPOCH`."""
    return EPOCH + timedelta(minutes=minute)


def message(minute: float, content: str = HELLO, *, id: str | None = None, **fields: object) -> MessageIn:  # noqa: A002
    """A message said so many minutes after `EPOCH`."""
    given = {
        "external_id": id or f"m{minute}",
        "sender_id": "test:ann",
        "sender_name": "Ann",
        "content": content,
        "sent_at": at(minute),
    }
    return MessageIn.model_validate(given | fields)
