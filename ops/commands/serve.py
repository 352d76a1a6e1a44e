"""Run one process in the foreground, for a service manager or a container, or the tools over standard input."""

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from ops import connection
from ops.console.command import DataDirOption, command
from schemas.errors import InvalidInput, SettingsError
from schemas.settings import Settings

worker_app = typer.Typer(rich_markup_mode="markdown")
beat_app = typer.Typer(rich_markup_mode="markdown")
api_app = typer.Typer(rich_markup_mode="markdown")
metrics_app = typer.Typer(rich_markup_mode="markdown")


@command(worker_app, "backscroll worker embed")
def worker(
    queue: Annotated[list[str] | None, typer.Argument(help="Queues (default: all but embed).")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Processes or threads.")] = None,
    name: Annotated[
        str | None, "Its node name, such as embed@gpu (default: of queue, process and host)."
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run one worker in the foreground, on these queues, until TERM or Ctrl-C.

    - **accept** accepts the messages of bots that use the queue: a process (prefork)
    - **ingest** places messages into sessions: a process (prefork)
    - **embed** holds an embedding model, which uses all cores by itself: a process (prefork)
    - **summarize** waits for a language model: 16 threads (threads)
    - **backfill** prunes, forgets and backfills, rarely and long: a process (prefork)
    - **sweep** closes idle sessions and makes up for lost wake-ups, every few seconds: a thread (threads)

    A worker of several queues runs them in the pool that the first one needs. Each queue needs at least one worker,
    and the whole deployment one **backscroll beat**. On TERM a worker has 30 seconds to finish its jobs and hands the
    rest back; give it more than that before you kill it.
    """
    from ops.local.processes import own_environment, worker_command
    from pipeline.clients.factory import make_learning_model, make_summary_model
    from workers.queues import QUEUES

    names = queue or [name for name in QUEUES if name != "embed"]
    if unknown := [name for name in names if name not in QUEUES]:
        raise InvalidInput(f"there is no queue {unknown[0]}; there are {', '.join(QUEUES)}", field="queue")
    settings = connection.open_stack(data_dir)
    if "summarize" in names:
        make_summary_model(settings)
        make_learning_model(settings)
    command = worker_command(names, concurrency=concurrency)
    if name is not None:
        command[command.index("-n") + 1] = name
    _run_instead(settings, command, own_environment(settings, *names))


@command(beat_app, "BACKSCROLL_REDIS_URL=redis://… backscroll beat")
def beat(data_dir: DataDirOption = None) -> None:
    """Run the clock in the foreground: it asks a worker of **sweep** to sweep and one of **backfill** to prune.

    One is enough for a whole deployment, and a second one does no harm. Without one, idle sessions are never closed
    and lost wake-ups never made up for. Its schedule is in the data folder; without it everything is due at the start.
    """
    from ops.local.embedded.folder import explained
    from ops.local.processes import beat_command, own_environment

    settings = connection.configured(data_dir)
    if settings.redis_url is None:
        settings = connection.open_stack(data_dir)
    with explained(settings.data_dir):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _run_instead(settings, beat_command(settings.data_dir), own_environment(settings, "beat"))


@command(api_app, "BACKSCROLL_API_KEY=… BACKSCROLL_DATABASE_URL=… backscroll api --host 0.0.0.0")
def api(
    host: Annotated[str | None, "Address (default: BACKSCROLL_HOST)."] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port (default: BACKSCROLL_PORT).")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=16, help="Processes (default: BACKSCROLL_API_PROCESSES).")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run the HTTP API in the foreground: messages in, contexts out.

    It needs the database as the role that sees one tenant at a time, and Redis to wake the workers. Put a proxy with
    TLS in front of it if it listens on more than the loopback address.
    """
    from ops.local.processes import api_command, own_environment

    settings = connection.open_stack(data_dir)
    if settings.api_key is None:
        raise SettingsError("BACKSCROLL_API_KEY is not set: the HTTP API refuses requests without a key")
    options = {"host": host, "port": port, "api_processes": processes}
    chosen = settings.model_copy(update={name: value for name, value in options.items() if value})
    _run_instead(chosen, api_command(chosen), own_environment(chosen, "api"))


@command(metrics_app, "BACKSCROLL_MAINTENANCE_DATABASE_URL=… backscroll metrics --host 0.0.0.0")
def metrics(
    host: Annotated[str | None, "Address (default: BACKSCROLL_METRICS_HOST)."] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port (default: BACKSCROLL_METRICS_PORT).")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Serve **/metrics** for Prometheus in the foreground, and **/healthz**.

    It needs the database as the role that claims jobs of all tenants, and Redis. No key is needed and no text is
    told; keep it on a network of your own.
    """
    from ops.local.processes import metrics_command, own_environment

    settings = connection.open_stack(data_dir)
    if settings.maintenance_database_url is None:
        raise SettingsError(
            "BACKSCROLL_MAINTENANCE_DATABASE_URL is not set: figures of all tenants are read as that role"
        )
    options = {"metrics_host": host, "metrics_port": port}
    chosen = settings.model_copy(update={name: value for name, value in options.items() if value})
    _run_instead(chosen, metrics_command(), own_environment(chosen, "metrics"))


def _run_instead(settings: Settings, words: list[str], own: Mapping[str, str]) -> None:
    """Replace this process by a command that finds these settings, and what is its own, in its environment."""
    from ops.local.processes import environment

    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(words[0], words, environment(settings) | dict(own))  # noqa: S606 - our own Python, no shell


mcp_app = typer.Typer(rich_markup_mode="markdown")


@command(mcp_app, "BACKSCROLL_URL=https://… BACKSCROLL_API_KEY=… backscroll mcp")
def mcp(data_dir: DataDirOption = None) -> None:
    """Offer memory to a language model: a Model Context Protocol server on standard input and output.

    Its tools ask the HTTP API at **BACKSCROLL_URL** with **BACKSCROLL_API_KEY**, or else the running **backscroll
    up**; the scopes of the key decide which tools there are. A client that speaks HTTP needs no command: the API
    offers the same at **/mcp**.
    """
    api = connection.require_api(data_dir, None)
    import anyio

    from workers.mcp.server import serve_stdio

    anyio.run(serve_stdio, api.url, api.api_key)
