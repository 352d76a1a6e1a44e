"""The command lines of the processes that Backscroll consists of, and the environment they read.

`backscroll up` starts all of them as children, `backscroll worker`, `beat` and `web` become one of them.
"""

import os
import sys
from pathlib import Path

from pydantic import SecretStr

from schemas.settings import PREFIX, Settings
from workers import queues

# A project in the working directory may have packages of the same names as ours: ours are found without it.
PYTHON = (sys.executable, "-P", "-m")
ROOT = Path(__file__).parents[1]

WEB_PROCESSES = 2
"""Of the HTTP API, where nothing else is said: senders and askers do not wait for one another's interpreter."""

# What children are told of, besides what they find in the environment themselves.
TOLD = (
    "database_url",
    "maintenance_database_url",
    "redis_url",
    "api_key",
    "data_dir",
    "host",
    "port",
    "tenant",
    "embedding_provider",
    "embedding_model",
    "summarize_debounce_seconds",
    "settle_seconds",
    "sweep_seconds",
)


def environment(settings: Settings) -> dict[str, str]:
    """The environment in which a process finds these settings; the roles of owner and backup are told to none."""
    told = {}
    for name in TOLD:
        value = getattr(settings, name)
        if value is not None:
            told[PREFIX + name.upper()] = (
                value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            )
    untold = {f"{PREFIX}OWNER_DATABASE_URL", f"{PREFIX}BACKUP_DATABASE_URL"}
    inherited = {name: value for name, value in os.environ.items() if name not in untold}
    # Warm shutdown has no end while a task hangs; this one gives back what it holds after its time.
    return inherited | told | {"REMAP_SIGTERM": "SIGQUIT"}


def worker_command(
    names: list[str], *, concurrency: int | None = None, shutdown_seconds: float | None = None
) -> list[str]:
    """A Celery worker of the queues of these names.

    `concurrency` replaces what the queues ask for; `shutdown_seconds` is what a worker that holds tasks has
    to finish them, instead of the application's own setting.
    """
    chosen = [queues.QUEUES[name] for name in names]
    arguments = queues.worker_arguments(chosen)
    if concurrency is not None:
        arguments[arguments.index("--concurrency") + 1] = str(concurrency)
    overrides = []
    if chosen[0].spawn:
        overrides += ["worker.pool_start_method=spawn"]
    if shutdown_seconds is not None:
        overrides += [f"worker.soft_shutdown_timeout={shutdown_seconds}"]
    return _celery(*arguments, *(["--", *overrides] if overrides else []))


def beat_command(directory: Path) -> list[str]:
    """Celery's clock; its schedule file lies in the directory."""
    return _celery("beat", "--schedule", str(directory / "beat-schedule"), "--pidfile", "")


def web_command(settings: Settings) -> list[str]:
    """The HTTP door, where the settings say, in as many processes as they say."""
    processes = settings.web_processes or min(WEB_PROCESSES, cores())
    where = ("--host", settings.host, "--port", str(settings.port))
    return [*PYTHON, "workers.api", *where, "--processes", str(processes)]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def flower_command(port: int) -> list[str]:
    """Flower on the loopback address; its password comes from the environment (FLOWER_BASIC_AUTH)."""
    return _celery("flower", "--address=127.0.0.1", f"--port={port}")


def _celery(*arguments: str) -> list[str]:
    # quiet: without a banner before the log's JSON lines
    return [*PYTHON, "workers", "--quiet", "-A", "workers.app", *arguments]
