"""Start and stop everything that `backscroll up` runs with one data folder, on free ports, with an embedder."""

import contextlib
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from errno import EADDRINUSE
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from ops import connection
from ops.local import migrate, processes, stack
from ops.local.embedded.folder import DataFolderError, explained, make_folder, write_private
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.roles import LoginRole
from ops.local.embedded.server import LOOPBACK, EmbeddedServer, PortTaken, reserved_port
from ops.local.forks import SUPPORTED, Forks
from ops.local.stack import Running
from ops.local.supervisor import Supervisor
from pipeline.clients import deterministic, factory, http_embedder
from pipeline.clients.factory import sent_elsewhere
from pipeline.clients.onnx import onnx_folder
from pipeline.operations.doctor import collect
from schemas.errors import BackscrollError, Permanent, QueueUnavailable, SettingsError, WritesRefused
from schemas.settings import PREFIX, Settings
from workers.connection import probe
from workers.queues import QUEUES


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Options of `backscroll up` beside the settings."""

    flower: bool = True
    # the flag of `MODELS` that was given
    asked: str | None = None


MODELS: Mapping[str, tuple[Literal["deterministic", "onnx"], str]] = {
    "--light": ("deterministic", deterministic.MODEL),
    "--english": ("onnx", onnx_folder.ENGLISH.model),
}
"""The provider and the model that each of these flags of `backscroll up` selects."""


LISTENERS = (
    # the settings of port and address, what listens there, and what to do beside stopping whoever has the port
    ("port", "host", "the HTTP API", "name another with --port"),
    ("flower_port", None, "Flower", "name another with --flower-port, or start with --no-flower"),
    ("metrics_port", "metrics_host", "/metrics", "name another with --metrics-port"),
)
DEFAULT_PORT: int = Settings.model_fields["port"].default
NEIGHBOURS = 100
"""Ports that are tried for one that was not named, before any free one is taken."""


def choose_ports(
    settings: Settings, chosen: Choices, cleanup: contextlib.ExitStack, say: Callable[[str], None]
) -> Settings:
    """Complete the settings by ports that are reserved until the cleanup, and say which differ from the defaults.

    A port that was named is used or refused; 0 stands for any free one. Another lies as far above the HTTP API's as
    its default does, or is the next free one. Raises `PortTaken`.
    """
    ports: dict[str, int] = {}
    moved = []
    named = settings.model_fields_set
    # those that were named first: no other is to take them
    for name, address, what, advice in sorted(LISTENERS, key=lambda listener: listener[0] not in named):
        if name == "flower_port" and not chosen.flower:
            continue
        default, host = getattr(settings, name), getattr(settings, address) if address else LOOPBACK
        first = default + (0 if name in named else ports.get("port", DEFAULT_PORT) - DEFAULT_PORT)
        candidates = [first] if name in named else [*range(first, min(first + NEIGHBOURS, 1 << 16)), 0]
        for port in candidates:
            try:
                ports[name] = cleanup.enter_context(reserved_port(port, host))
                break
            except OSError as error:
                why = f"cannot be used ({error.strerror}): correct that"
                if error.errno == EADDRINUSE:
                    if port != candidates[-1]:
                        continue
                    why = "is taken: stop what listens there (`ss -ltnp` names it)"
                raise PortTaken(f"Port {port} on {host} for {what} {why}, or {advice}.") from error
        if name not in named and ports[name] != default:
            moved.append(f"{what} {ports[name]}" + (f" ({first} is taken)" if ports[name] != first else ""))
    if moved:
        say(f"Ports that were not named: {', '.join(moved)}")
    return settings.model_copy(update=ports)


def choose_embedder(settings: Settings, chosen: Choices, active: str | None) -> Settings:
    """Complete the settings by the embedder: that of the stored vectors, unless another was asked for.

    `active` is the name of their space. Raises `SettingsError` if a flag asks for a model that is not theirs, or if
    they were made by a server that may be elsewhere.
    """
    provider, model = settings.embedding_provider, settings.embedding_model
    if chosen.asked is not None:
        provider, model = MODELS[chosen.asked]
        if active and not active.startswith(f"{provider}/{model}/"):
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, which the model of {chosen.asked} cannot "
                f"compare with. Leave {chosen.asked} out, or name another folder with --data-dir."
            )
    elif provider is None and model is None and active:
        name, _, rest = active.partition("/")
        if name == http_embedder.OPENAI:
            # with stored vectors nothing is sent elsewhere, whatever key is in the environment
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, a server that texts are sent to. Set "
                f"BACKSCROLL_EMBEDDING_PROVIDER={name} to go on so, or name another folder with --data-dir."
            )
        model = rest.rpartition("/")[0]
        return settings.model_copy(update={"embedding_provider": name, "embedding_model": model})
    chosen_provider = provider or factory.default_provider()
    return settings.model_copy(update={"embedding_provider": chosen_provider, "embedding_model": model})


# For a worker to finish its task on Ctrl-C; an unfinished one is done after the next start.
TASK_SECONDS = 3.0
STOP_SECONDS = 30.0
READY_SECONDS = 90.0
# no proxy for servers on this machine, whatever the environment says
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
MODEL_SERVERS = ("openai_base_url", "ollama_url")
SECRETS = ("api_key", "database_url", "maintenance_database_url", "owner_database_url", "redis_url")

Say = Callable[[str], None]


class StartFailed(Permanent):
    """A process ended, or did not answer in time, at the start."""


class Launched:
    """The running processes; `settings` are complete, with all URLs, the key, the port and the embedder."""

    def __init__(self, settings: Settings, running: Running, supervisor: Supervisor, say: Say) -> None:
        self.settings = settings
        self.running = running
        self._supervisor = supervisor
        self._say = say

    def wait(self, seconds: float) -> None:
        """Wait, and meanwhile restart whatever has ended or hangs, and publish what does so again and again."""
        self._supervisor.wait(seconds)
        failing = self._supervisor.failing()
        if failing != self.running.failing:
            self.running = replace(self.running, failing=failing)
            try:
                stack.publish(self.settings.data_dir, self.running)
            except DataFolderError as error:
                # a full disk may be why something fails: the rest goes on
                self._say(str(error))


@contextlib.contextmanager
def everything(settings: Settings, choices: Choices, say: Say) -> Iterator[Launched]:
    """Start everything and wait until it is ready; stop it at the end, within about `STOP_SECONDS`.

    `say` gets a sentence for each start and each later problem. Must be called in the main thread. Raises a
    `BackscrollError` that says what is in the way.
    """
    # refused here and not in a worker's log
    sent_elsewhere(settings)
    stack.require_free(settings.data_dir)
    with contextlib.ExitStack() as cleanup:
        # before the folder is made, in case a port is taken
        settings = choose_ports(settings, choices, cleanup, say)
        make_folder(settings.data_dir)
        cleanup.enter_context(stack.alone(settings.data_dir, starts=True))
        # it imports while the servers start
        forks = Forks(processes.bare_environment()) if SUPPORTED else None
        if forks is not None:
            cleanup.callback(forks.close)
        key = settings.api_key or SecretStr(_kept_secret(settings.data_dir / "api-key"))
        settings = settings.model_copy(update={"api_key": key})
        settings, servers = _start_servers(settings, cleanup, say)
        settings = _prepare_tables(settings, choices, say)
        with contextlib.closing(connection.open_database(settings)) as database:
            for sentence in sent_elsewhere(settings, collect.written_spaces(database)):
                say(sentence)
        _require_redis(settings)

        logs = settings.data_dir / "logs"
        with explained(settings.data_dir):
            logs.mkdir(mode=0o700, exist_ok=True)
        supervisor = Supervisor(processes.environment(settings), logs, say, forks)
        cleanup.callback(supervisor.stop, STOP_SECONDS)
        for server in servers:
            supervisor.watch(server)
        running = _running(settings, choices)
        began = time.monotonic()
        _start_children(supervisor, settings, choices, running)
        _await(supervisor, f"{running.api_url}/readyz", "The HTTP API", logs / "api.log")
        say(f"workers of {', '.join(QUEUES)}, and the clock")
        say(f"HTTP API at {running.api_url} [{time.monotonic() - began:.1f} s]")
        _await(supervisor, f"{running.metrics_url}/healthz", "The process of /metrics", logs / "metrics.log")
        stack.publish(settings.data_dir, running)
        cleanup.callback(stack.withdraw, settings.data_dir)
        yield Launched(settings, running, supervisor, say)


def _start_servers(
    settings: Settings, cleanup: contextlib.ExitStack, say: Say
) -> tuple[Settings, list[EmbeddedServer]]:
    """Start the servers without a URL in the settings; returns the settings with all URLs."""
    postgres, redis = EmbeddedPostgres(settings.data_dir), EmbeddedRedis(settings.data_dir)
    servers: list[EmbeddedServer] = []
    if settings.database_url is None:
        servers.append(postgres)
    elif settings.maintenance_database_url is None:
        raise SettingsError(
            "BACKSCROLL_DATABASE_URL is set and BACKSCROLL_MAINTENANCE_DATABASE_URL is not: workers claim "
            "jobs as that role (`backscroll db roles` makes both)"
        )
    if settings.redis_url is None:
        servers.append(redis)

    def start(server: EmbeddedServer) -> str:
        began = time.monotonic()
        server.start()
        return f"{server.name.capitalize()} [{time.monotonic() - began:.1f} s]"

    for server in servers:
        cleanup.callback(server.stop)
    if servers:
        with ThreadPoolExecutor(len(servers)) as pool:
            for started in pool.map(start, servers):
                say(started)
    urls: dict[str, SecretStr] = {}
    if postgres in servers:
        roles: dict[str, LoginRole] = {"": "app", "maintenance_": "maintenance", "owner_": "owner"}
        urls |= {f"{name}database_url": SecretStr(postgres.dsn(role)) for name, role in roles.items()}
    if redis in servers:
        urls["redis_url"] = SecretStr(redis.url)
    return settings.model_copy(update=urls), servers


def _require_redis(settings: Settings) -> None:
    """Raise `QueueUnavailable` if Redis cannot be used: the HTTP API would never be ready."""
    try:
        probe(settings)
    except (QueueUnavailable, WritesRefused, SettingsError) as error:
        raise QueueUnavailable(
            f"{error}. Start it, set BACKSCROLL_REDIS_URL to where it is, or leave that out to use the embedded one."
        ) from error


def _prepare_tables(settings: Settings, choices: Choices, say: Say) -> Settings:
    """Migrate the tables and choose the embedder; returns the settings with it."""
    began = time.monotonic()
    owner = settings.owner_database_url
    if owner is None:
        return choose_embedder(settings, choices, active=None)
    before = migrate.state(owner.get_secret_value())
    active = next((name for name, status in before.spaces if status == "active"), None)
    settings = choose_embedder(settings, choices, active)
    after = migrate.upgrade(owner.get_secret_value(), migrate.configured_space(settings, before))
    done = f"tables at migration {after.newest}" if before.found else "tables created"
    active = next((name for name, status in after.spaces if status == "active"), "no model")
    say(f"{done}, embeddings by {active} [{time.monotonic() - began:.1f} s]")
    return settings


def _running(settings: Settings, choices: Choices) -> Running:
    secrets_: dict[str, Any] = {
        name: url.get_secret_value() if (url := getattr(settings, name)) else "" for name in SECRETS
    }
    return Running(
        pid=os.getpid(),
        api_url=_url(settings.host, settings.port),
        metrics_url=_url(settings.metrics_host, settings.metrics_port),
        **secrets_,
        tenant=settings.tenant,
        model_servers={name: getattr(settings, name) for name in MODEL_SERVERS},
        flower_url=f"http://127.0.0.1:{settings.flower_port}" if choices.flower else None,
        flower_password=_kept_secret(settings.data_dir / "flower-password") if choices.flower else None,
    )


def _url(host: str, port: int) -> str:
    """Return the URL by which this machine reaches a listener."""
    return f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104 - only compared


def _start_children(supervisor: Supervisor, settings: Settings, choices: Choices, running: Running) -> None:
    own = partial(processes.own_environment, settings)
    # embed first: its model loads while the others start
    for name in sorted(QUEUES, key=lambda name: name != "embed"):
        command = processes.worker_command([name], shutdown_seconds=TASK_SECONDS)
        heartbeat = settings.data_dir / f"logs/worker-{name}.heartbeat"
        heartbeat.unlink(missing_ok=True)
        environment = own(name) | {f"{PREFIX}WORKER_HEARTBEAT_FILE": str(heartbeat)}
        supervisor.start(f"worker-{name}", command, environment).lives = partial(beats, heartbeat, settings)
    supervisor.start("api", processes.api_command(settings), own("api"))
    supervisor.start("beat", processes.beat_command(settings.data_dir), own("beat"))
    supervisor.start("metrics", processes.metrics_command(), own("metrics"))
    if choices.flower:
        # in the environment: arguments are visible to every user of the machine
        secret = {"FLOWER_BASIC_AUTH": f"backscroll:{running.flower_password}"}
        supervisor.start("flower", processes.flower_command(settings.flower_port), own("flower") | secret)


def beats(heartbeat: Path, settings: Settings) -> bool:
    """Return whether a worker has touched its file since the last call, or cannot be expected to, as Redis is away."""
    silent = not heartbeat.exists()
    heartbeat.unlink(missing_ok=True)
    try:
        if silent:
            probe(settings)
    except BackscrollError:
        return True
    return not silent


def _await(supervisor: Supervisor, url: str, what: str, log: Path) -> None:
    """Wait until the URL answers 200. Raises `StartFailed`."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with _OPENER.open(url, timeout=5):
                return
        except OSError as error:
            if supervisor.failed_twice(log.stem) or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-1500:].strip() if log.exists() else ""
                raise StartFailed(
                    f"{what} does not answer at {url} ({error}). The end of {log}:\n{tail}"
                ) from error
        supervisor.wait(0.1)


def _kept_secret(path: Path) -> str:
    """Read a secret, made at random the first time."""
    with explained(path.parent):
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text(encoding="utf-8").strip()
