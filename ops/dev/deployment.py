"""A deployment of its own, all of it real: its servers, its processes, and a disk that can be full.

It lies in a temporary folder and ends with this process, however that ends.

The disk lies in a mount namespace, which takes root on Linux.
"""

import contextlib
import ctypes
import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from redis import Redis

from ops.dev import providers, skewed
from ops.dev.figures import wait
from ops.local import migrate, processes
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.roles import DATABASE
from ops.local.embedded.server import die_with_parent, free_port
from pipeline.clients.deterministic import DeterministicEmbedder
from schemas.errors import Permanent
from schemas.load_settings import load_settings
from schemas.settings import PREFIX, Settings
from schemas.vectors import EmbeddingSpace
from workers.app import REDIS_TRANSPORT
from workers.queues import QUEUES

# What Celery's workers, its clock and uvicorn log when they have started.
READY_WORDS = (b" ready.", b"beat: Starting...", b"startup complete")


class DeployedProcess:
    """One process with its children, in a session of its own; to be started by the main thread."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        # what the next start is given
        self.environment = dict(environment)
        self._command = list(command)
        self._folder = folder
        self._begins_at = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; what it writes goes to its log."""
        die = die_with_parent(signal.SIGKILL)

        def begin() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            die()

        # while a process is made, Python would print the exception of a Ctrl-C and go on
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with self.log.open("ab") as out:
                self._begins_at = out.tell()
                self._child = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=begin,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def is_running(self) -> bool:
        """Return whether its first process lives."""
        return self._child is not None and self._child.poll() is None

    def is_ready(self) -> bool:
        """Return whether it has logged since its last start that it takes up its work."""
        log = self.log.read_bytes()[self._begins_at :]
        return any(word in log for word in READY_WORDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and all its children."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def kill(self) -> None:
        """SIGKILL it and all its children."""
        self.signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()

    def restart(self) -> None:
        """SIGKILL it and start it again."""
        self.kill()
        self.start()


API_TENANT, PAYLOAD_TENANT = "by-api", "by-payload"
# After which a killed worker's payloads come back; ten minutes in production.
VISIBILITY_SECONDS = 5
# Leases are a tenth as long as in production, and faults dense: one row may well meet more than five of them.
MAX_ATTEMPTS = 12
# A dozen processes that start at once; on a machine that does other work, too.
READY_SECONDS = 300.0
# As often as in production, unless leases are short.
SWEEP_SECONDS = 5.0
# Two of a kind, so that another can take over from one that was too slow.
CONCURRENCY = {"ingest": 2, "embed": 2, "summarize": 4}
HASHED_WORDS = DeterministicEmbedder().space


class NotReady(Permanent):
    """A process of the deployment did not come up; the message holds the end of its log."""


@dataclass(frozen=True)
class OwnDeployment:
    """What runs, and how it is reached."""

    settings: Settings
    folder: Path
    postgres: EmbeddedPostgres
    redis: EmbeddedRedis
    processes: Mapping[str, DeployedProcess]
    # why its folder is no disk of its own, where one was wanted
    without_disk: str | None

    @property
    def api(self) -> tuple[int, str]:
        """Port and key of the HTTP API."""
        key = self.settings.api_key
        return self.settings.port, key.get_secret_value() if key else ""

    def connect(self) -> psycopg.Connection:
        """Connect as the role that sees every tenant; neither connecting nor a statement takes longer than 30 s."""
        return psycopg.connect(
            self.postgres.superuser_dsn(DATABASE),
            autocommit=True,
            connect_timeout=30,
            options="-c statement_timeout=30s -c idle_in_transaction_session_timeout=0",
        )

    def redis_client(self) -> Redis:
        return Redis.from_url(self.redis.url, socket_timeout=5, socket_connect_timeout=2)

    @contextlib.contextmanager
    def mood(self, mood: str) -> Iterator[None]:
        """Let the model provider behave so during a block, as `providers` reads it."""
        written = self.folder / "mood.new"
        written.write_text(mood, encoding="utf-8")
        current = written.replace(self.folder / "mood")
        try:
            yield
        finally:
            current.unlink()

    def tend(self) -> None:
        """Restart the processes that ended by themselves."""
        for process in self.processes.values():
            if not process.is_running():
                process.restart()

    def revive_servers(self) -> None:
        """Start Postgres and Redis where they have ended."""
        for server in (self.postgres, self.redis):
            if not server.is_running():
                server.start()

    def is_ready(self) -> bool:
        """Return whether all processes have come up."""
        return all(process.is_ready() for process in self.processes.values())

    def keep_logs(self) -> str:
        """Copy the logs to where they outlive the deployment; return the folder's name."""
        kept = tempfile.mkdtemp(prefix="backscroll-chaos-logs-")
        for log in self.folder.glob("*.log"):
            shutil.copy(log, kept)
        return kept


@contextlib.contextmanager
def running(
    *,
    lease_seconds: float = 30,
    only: Collection[str] = (),
    space: EmbeddingSpace = HASHED_WORDS,
    own_disk: bool = False,
    durable: bool = True,
) -> Iterator[OwnDeployment]:
    """Run all processes, or those of these names, and wait until they are ready; kill them at the end.

    The database begins with `space`. With `own_disk` the folder is a file system that may be filled, where one can be
    made. To be called by the main thread. Raises `NotReady` and what the embedded servers raise.
    """
    with contextlib.ExitStack() as cleanup:
        temporary = tempfile.TemporaryDirectory(prefix="backscroll-chaos-", ignore_cleanup_errors=True)
        folder = Path(cleanup.enter_context(temporary))
        without_disk = cleanup.enter_context(disk_mounted(folder)) if own_disk else None
        postgres = cleanup.enter_context(EmbeddedPostgres(folder, durable=durable))
        server = cleanup.enter_context(EmbeddedRedis(folder))
        migrate.upgrade(postgres.dsn("owner"), space)
        settings = load_settings(
            data_dir=folder,
            database_url=postgres.dsn("app"),
            maintenance_database_url=postgres.dsn("maintenance"),
            redis_url=server.url,
            api_key=secrets.token_urlsafe(16),
            port=free_port(),
            tenant=API_TENANT,
            embedding_provider=space.provider,
            embedding_model=space.model,
            summarize_debounce_seconds=0,
            settle_seconds=0,
            sweep_seconds=min(SWEEP_SECONDS, lease_seconds / 2),
            lease_seconds=lease_seconds,
            job_max_attempts=MAX_ATTEMPTS,
        )
        made = _processes(settings, folder)
        chosen = {name: process for name, process in made.items() if not only or name in only}
        deployment = OwnDeployment(settings, folder, postgres, server, chosen, without_disk)
        for process in deployment.processes.values():
            cleanup.callback(process.kill)
            process.start()
        if wait(deployment.is_ready, READY_SECONDS, pause=0.1) is None:
            late = [process for process in deployment.processes.values() if not process.is_ready()]
            logs = "\n".join(process.log.read_text(errors="replace")[-1500:] for process in late)
            raise NotReady(f"Not every process came up. The end of what they logged:\n{logs}")
        yield deployment


def _processes(settings: Settings, folder: Path) -> dict[str, DeployedProcess]:
    commands = {name: _worker(name) for name in QUEUES} | {
        "api": processes.api_command(settings),
        "beat": _skewed(processes.beat_command(folder)),
    }
    passed = {PREFIX + name.upper() for name in processes.PASSED}
    inherited = processes.environment(settings).items()
    environment = {
        # nothing of the caller's own deployment
        **{name: value for name, value in inherited if not name.startswith(PREFIX) or name in passed},
        f"{PREFIX}LEASE_SECONDS": str(settings.lease_seconds),
        f"{PREFIX}JOB_MAX_ATTEMPTS": str(settings.job_max_attempts),
        "OMP_NUM_THREADS": "1",
        # what killed processes leave there goes with the folder
        "TMPDIR": str(folder),
        "PYTHONPATH": str(processes.ROOT),
        providers.MOOD_FILE: str(folder / "mood"),
    }
    return {name: DeployedProcess(name, command, folder, environment) for name, command in commands.items()}


def _worker(name: str) -> list[str]:
    """Return the shipped command, with models that have moods and payloads that come back soon."""
    command = _skewed(processes.worker_command([name], concurrency=CONCURRENCY.get(name), shutdown_seconds=1))
    at = command.index("worker") + 1
    transport = REDIS_TRANSPORT | {"visibility_timeout": VISIBILITY_SECONDS, "unacked_restore_interval": 1}
    options = f"broker.transport_options=(json){json.dumps(transport)}"
    return [*command[:at], "-I", providers.__name__, *command[at:], options]


def _skewed(command: list[str]) -> list[str]:
    """Return the same command, with a clock that can be wrong."""
    return [skewed.__name__ if part == "workers" else part for part in command]


NEW_MOUNTS = 0x20000
# Nothing is taken before it is written; a run of 20,000 messages writes a third of it.
DISK_BYTES = "3g"


@contextlib.contextmanager
def disk_mounted(folder: Path) -> Iterator[str | None]:
    """Make the folder a disk; yields why it cannot be, if so. To be called by the main thread."""
    reason = _mount(folder)
    try:
        yield reason
    finally:
        if reason is None:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(folder: Path) -> str | None:
    if sys.platform != "linux" or shutil.which("mount") is None:
        return "a disk of its own needs Linux and `mount`"
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) != 0:
        return f"a namespace cannot be made here: {os.strerror(ctypes.get_errno())}"
    # not even other programs of ours see what is mounted from here on
    private = ["mount", "--make-rprivate", "/"]
    memory = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "backscroll", str(folder)]
    for command in (private, memory):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return str(done.stderr).strip()
    return None


@contextlib.contextmanager
def disk_filled(folder: Path) -> Iterator[None]:
    """Fill the disk during a block."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        try:
            _fill(file.fileno())
            yield
        finally:
            filler.unlink()


def _fill(descriptor: int) -> None:
    size = 0
    # the last bytes in small steps
    for step in (1 << 24, os.sysconf("SC_PAGE_SIZE")):
        try:
            while True:
                os.posix_fallocate(descriptor, size, step)
                size += step
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
