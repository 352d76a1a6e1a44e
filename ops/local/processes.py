"""Backscroll's processes: their command lines, their environment, and the memory that each kind takes (Linux)."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import SecretStr

from ops.local import forks
from ops.local.embedded.server import children
from ops.local.forks import PYTHON
from pipeline.clients import http_embedder, processors
from schemas.settings import PREFIX, Settings
from workers import queues

ROOT = Path(__file__).parents[2]

# By default two, so that storing and answering do not wait for one another's interpreter.
API_PROCESSES = 2

# Settings that are passed to children, besides the environment that they inherit.
PASSED = (
    "database_url",
    "database_read_url",
    "maintenance_database_url",
    "redis_url",
    "api_key",
    "data_dir",
    "host",
    "port",
    "metrics_host",
    "metrics_port",
    "tenant",
    "embedding_provider",
    "embedding_model",
    "summarize_debounce_seconds",
    "settle_seconds",
    "sweep_seconds",
)

# Model servers and their keys: only for processes that call a model.
MODELS = ("openai_base_url", "openai_api_key")

SECRETS = frozenset(
    name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation)
)
# A warm shutdown waits forever for a hanging task; this one returns it to the queue after its time. Celery reads it
# when it is imported.
_AT_IMPORT = {"REMAP_SIGTERM": "SIGQUIT"}
_OF_JOBS = ("database_url", "maintenance_database_url", "redis_url")
_OF_API = ("database_url", "database_read_url")
READ_SECRETS: Mapping[str, tuple[str, ...]] = {
    "api": (*_OF_API, "redis_url", "api_key", "openai_api_key", "reranker_api_key"),
    "beat": ("redis_url",),
    "flower": ("redis_url",),
    "metrics": _OF_JOBS,
    **dict.fromkeys(queues.QUEUES, _OF_JOBS),
    **dict.fromkeys(("embed", "summarize"), (*_OF_JOBS, "openai_api_key")),
}
"""The secret settings that each process reads; a worker goes by its queue."""


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment variables that give a process these settings.

    Without the roles of owner and backup; `own_environment` goes over it.
    """
    hidden = {f"{PREFIX}OWNER_DATABASE_URL", f"{PREFIX}BACKUP_DATABASE_URL", *map(str.upper, MODELS)}
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    # empty: a file of settings that a process reads by itself may have them, and the environment goes first
    withheld = {PREFIX + name.upper(): "" for name in MODELS}
    return inherited | _variables(settings, PASSED) | withheld | _AT_IMPORT


def bare_environment() -> dict[str, str]:
    """Return the environment of the process that only imports, without any setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)} | _AT_IMPORT


def own_environment(settings: Settings, *processes: str) -> dict[str, str]:
    """Make what processes of `READ_SECRETS` find instead: no secrets of others, and model servers if they ask them.

    The HTTP API asks for a question's vector, and for a hypothetical answer.
    """
    read = {name for process in processes for name in READ_SECRETS[process]}
    asks = settings.embedding_provider == http_embedder.OPENAI or settings.hyde_model is not None
    models = "openai_api_key" in read and (asks or "api" not in processes)
    withheld = {PREFIX + name.upper(): "" for name in SECRETS - read}
    return withheld | (_variables(settings, MODELS) if models else {})


def _variables(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    values = {PREFIX + name.upper(): getattr(settings, name) for name in names}
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in values.items()
        if value is not None
    }


def worker_command(
    names: list[str], *, concurrency: int | None = None, shutdown_seconds: float | None = None
) -> list[str]:
    """Make the command of a Celery worker of these queues, with `shutdown_seconds` to finish tasks."""
    chosen = [queues.QUEUES[name] for name in names]
    arguments = queues.worker_arguments(chosen)
    if concurrency is not None:
        arguments[arguments.index("--concurrency") + 1] = str(concurrency)
    if shutdown_seconds is not None:
        arguments += ["--", f"worker.soft_shutdown_timeout={shutdown_seconds}"]
    return _celery(*arguments)


def beat_command(directory: Path) -> list[str]:
    """Make the command of Celery's clock, with its schedule file in the directory."""
    return _celery("beat", "--schedule", str(directory / "beat-schedule"), "--pidfile", "")


def api_command(settings: Settings) -> list[str]:
    """Make the command of the HTTP API, with host, port and processes of the settings."""
    processes = settings.api_processes or min(API_PROCESSES, processors.available())
    where = ("--host", settings.host, "--port", str(settings.port))
    return [*PYTHON, "workers.api", *where, "--processes", str(processes)]


def metrics_command(*options: str) -> list[str]:
    """Make the command of the process that serves `/metrics`, where the settings say."""
    return [*PYTHON, "workers.metrics", *options]


def flower_command(port: int) -> list[str]:
    """Make the command of Flower on the loopback address; FLOWER_BASIC_AUTH in the environment is its password."""
    return _celery("flower", "--address=127.0.0.1", f"--port={port}")


def _celery(*arguments: str) -> list[str]:
    # quiet: no banner before the log's JSON lines
    return [*PYTHON, "workers", "--quiet", "-A", "workers.app", *arguments]


PROC = Path("/proc")
_WORDS_END = re.compile("[ :]")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def memory_by_kind(pid: int) -> dict[str, int]:
    """Measure proportional set sizes in bytes by kind of process, the largest first; empty without /proc."""
    sizes: dict[str, int] = defaultdict(int)
    parents = children()
    waiting = [(pid, "up")]
    while waiting:
        current, inherited = waiting.pop()
        command, name = (_read_memory(PROC / str(current) / file) for file in ("cmdline", "comm"))
        kind = kind_of_process(command.rstrip("\0").split("\0"), name.strip()) or inherited
        if match := _PSS.search(_read_memory(PROC / str(current) / "smaps_rollup")):
            sizes[kind] += 1024 * int(match[1])
        waiting += [(child, kind) for child in parents[current]]
    return dict(sorted(sizes.items(), key=lambda item: -item[1])) if any(sizes.values()) else {}


def kind_of_process(command: Sequence[str], name: str = "") -> str | None:
    """Tell the kind of a process by its command line, or of a fork by its name; None if it has no kind of its own.

    >>> kind_of_process(["python", "-P", "-m", "workers", "-A", "workers.app", "worker", "-n", "embed@host"])
    'worker embed'
    >>> kind_of_process(["python", "-P", "-m", "workers.api", "--port", "8420"])
    'api'
    >>> kind_of_process(["/opt/bin/postgres", "-D", "data"])
    'postgres'
    """
    if forks.__name__ in command:
        return (f"worker {name}" if name in queues.QUEUES else name) if name in READ_SECRETS else None
    # Postgres and Redis append what they are doing to their name
    program = _WORDS_END.split(Path(command[0]).name)[0]
    if program in {"postgres", "redis-server", "valkey-server"}:
        return program.partition("-")[0]
    for module in ("workers.api", "workers.metrics"):
        if module in command:
            return module.partition(".")[2]
    if "worker" in command and "-n" in command:
        return f"worker {command[list(command).index('-n') + 1].partition('@')[0]}"
    return next((name for name in ("beat", "flower") if name in command), None)


def _read_memory(path: Path) -> str:
    """Read a file; nothing if the process has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
