"""Everything that takes part in a chaos run: Postgres, Redis, a worker of each queue, beat and the door.

All of it real, in a folder of its own, and ended with us, however we end.
"""

import contextlib
import json
import secrets
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pydantic import SecretStr
from redis import Redis

from ops import migrate, processes
from ops.chaos import providers, skewed
from ops.chaos.hosts import Hosts, NetworkPostgres, NetworkRedis, as_seen_from_afar
from ops.chaos.member import Member
from ops.embedded.ports import free_port
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.embedded.roles import DATABASE
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.errors import Permanent
from schemas.settings import PREFIX, Settings, load_settings
from workers.app import REDIS_TRANSPORT
from workers.queues import QUEUES

DOOR_TENANT, PAYLOAD_TENANT = "by-door", "by-payload"
# A killed worker's payloads come back after so long; ten minutes in earnest.
VISIBILITY_SECONDS = 5
# Leases are a tenth as long as in earnest, and faults dense: one row may well meet more than five of them.
MAX_ATTEMPTS = 12
READY_SECONDS = 60.0
# Two of a kind, so that there is somebody to take over what another was too slow for.
CONCURRENCY = {"ingest": 2, "embed": 2, "summarize": 4}


class NotReady(Permanent):
    """A process of the cast did not come up; the message holds the end of its log."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What runs, and how it is reached."""

    settings: Settings
    folder: Path
    postgres: EmbeddedPostgres
    redis: EmbeddedRedis
    members: Mapping[str, Member]

    @property
    def door_url(self) -> str:
        """Where messages are posted."""
        return f"http://127.0.0.1:{self.settings.port}"

    def connect(self) -> psycopg.Connection:
        """A connection that sees every tenant and waits for no statement longer than 30 s."""
        return psycopg.connect(
            self.postgres.superuser_dsn(DATABASE),
            autocommit=True,
            connect_timeout=5,
            options="-c statement_timeout=30s -c idle_in_transaction_session_timeout=0",
        )

    def redis_client(self) -> Redis:
        """A client of the broker."""
        return Redis.from_url(self.redis.url, socket_timeout=5, socket_connect_timeout=2)

    def set_mood(self, mood: str) -> None:
        """How the model provider behaves from now, as `providers` reads it."""
        written = self.folder / "mood.new"
        written.write_text(mood, encoding="utf-8")
        written.replace(self.folder / "mood")

    def tend(self) -> list[str]:
        """Start again what has ended by itself; the names."""
        ended = [member for member in self.members.values() if not member.is_running()]
        for member in ended:
            member.kill()
            member.start()
        return [member.name for member in ended]

    def is_ready(self) -> bool:
        """Whether everybody has come up."""
        return all(member.is_ready() for member in self.members.values())


@contextlib.contextmanager
def playing(
    folder: Path, lease_seconds: float, sweep_seconds: float, hosts: Hosts | None = None
) -> Iterator[Cast]:
    """The whole cast, ready; killed at the end. Raises `NotReady` and what the embedded servers raise.

    With `hosts` the workers and beat are on the far one, the servers and the door on the near one.
    """
    with contextlib.ExitStack() as cleanup:
        postgres = EmbeddedPostgres(folder, durable=True) if hosts is None else NetworkPostgres(folder)
        server = EmbeddedRedis(folder) if hosts is None else NetworkRedis(folder)
        cleanup.enter_context(postgres)
        cleanup.enter_context(server)
        migrate.upgrade(postgres.dsn("owner"), DeterministicEmbedder().space)
        settings = load_settings(
            data_dir=folder,
            database_url=postgres.dsn("app"),
            maintenance_database_url=postgres.dsn("maintenance"),
            redis_url=server.url,
            api_key=secrets.token_urlsafe(16),
            port=free_port(),
            tenant=DOOR_TENANT,
            embedding_provider="deterministic",
            embedding_model=None,
            summarize_debounce_seconds=0,
            settle_seconds=0,
            sweep_seconds=sweep_seconds,
            lease_seconds=lease_seconds,
            work_max_attempts=MAX_ATTEMPTS,
        )
        members = (
            _members(settings, folder) if hosts is None else _members_apart(settings, postgres, folder, hosts)
        )
        cast = Cast(settings=settings, folder=folder, postgres=postgres, redis=server, members=members)
        cast.set_mood(providers.WELL)
        for member in members.values():
            cleanup.callback(member.kill)
        for member in members.values():
            member.start()
        _await_door(cast)
        yield cast


def keep_logs(folder: Path) -> str:
    """Copy the logs of a cast to where they outlive it; the folder's name."""
    kept = tempfile.mkdtemp(prefix="backscroll-chaos-logs-")
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)
    return kept


def remove(folder: Path) -> None:
    """Delete the folder of a cast that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


def _members(settings: Settings, folder: Path) -> dict[str, Member]:
    environment = _environment(settings, folder)
    return {
        name: Member(name, command, folder, environment)
        for name, command in _commands(settings, folder).items()
    }


def _members_apart(
    settings: Settings, postgres: EmbeddedPostgres, folder: Path, hosts: Hosts
) -> dict[str, Member]:
    """The door here, all others on the far host, which they reach the servers from by their address."""
    urls = {
        "database_url": postgres.dsn("app", tcp=True),
        "maintenance_database_url": postgres.dsn("maintenance", tcp=True),
        "redis_url": settings.redis_url.get_secret_value() if settings.redis_url else "",
    }
    afar = settings.model_copy(update={name: SecretStr(as_seen_from_afar(url)) for name, url in urls.items()})
    near, far = _environment(settings, folder), _environment(afar, folder)
    return {
        name: Member(name, command, folder, near)
        if name == "web"
        else Member(name, hosts.command(command), folder, far)
        for name, command in _commands(settings, folder).items()
    }


def _environment(settings: Settings, folder: Path) -> dict[str, str]:
    told = {PREFIX + name.upper() for name in processes.TOLD}
    return {
        # nothing of the caller's own deployment
        **{
            name: value
            for name, value in processes.environment(settings).items()
            if not name.startswith(PREFIX) or name in told
        },
        f"{PREFIX}LEASE_SECONDS": str(settings.lease_seconds),
        f"{PREFIX}WORK_MAX_ATTEMPTS": str(settings.work_max_attempts),
        "OMP_NUM_THREADS": "1",
        # what killed processes leave there goes with the folder
        "TMPDIR": str(folder),
        "PYTHONPATH": str(processes.ROOT),
        providers.MOOD_FILE: str(folder / "mood"),
    }


def _commands(settings: Settings, folder: Path) -> dict[str, list[str]]:
    return {name: _worker(name) for name in QUEUES} | {
        "web": processes.web_command(settings),
        "beat": _skewed(processes.beat_command(folder)),
    }


def _worker(name: str) -> list[str]:
    """The shipped command, with models that have moods and payloads that come back soon."""
    command = _skewed(processes.worker_command([name], concurrency=CONCURRENCY.get(name), shutdown_seconds=1))
    at = command.index("worker") + 1
    transport = REDIS_TRANSPORT | {"visibility_timeout": VISIBILITY_SECONDS, "unacked_restore_interval": 1}
    return [
        *command[:at],
        *("-I", providers.__name__),
        *command[at:],
        f"broker.transport_options=(json){json.dumps(transport)}",
    ]


def _skewed(command: list[str]) -> list[str]:
    """The same command, with a clock that can be wrong."""
    return [skewed.__name__ if part == "workers" else part for part in command]


def _await_door(cast: Cast) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{cast.door_url}/readyz", timeout=5):  # noqa: S310 - our own http URL
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                said = cast.members["web"].log.read_text(errors="replace")[-1500:]
                raise NotReady(f"The door does not answer ({error}). The end of its log:\n{said}") from error
        time.sleep(0.1)
