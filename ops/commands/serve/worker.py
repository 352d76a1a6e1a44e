"""`backscroll worker`: one Celery worker in the foreground, for a service manager or a container."""

import os
import sys
from typing import Annotated

import typer

from ops import connection
from ops.console.options import DataDirOption
from schemas.errors import InvalidInput
from schemas.settings import Settings

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll worker embed · backscroll worker accept ingest · "
    "BACKSCROLL_DATABASE_URL=… BACKSCROLL_REDIS_URL=… backscroll worker summarize --concurrency 32"
)
def worker(
    queue: Annotated[
        list[str] | None, typer.Argument(help="One or more of the queues above (default: all but embed).")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Processes or threads (default: as the queues need).")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run one worker in the foreground, on these queues, until TERM or Ctrl-C.

    - **accept** accepts the messages of bots that use the queue: a process (prefork)
    - **ingest** places messages into sessions: a process (prefork)
    - **embed** holds an embedding model, which uses all cores by itself: a spawned process (prefork)
    - **summarize** waits for a language model: 16 threads (threads)
    - **backfill** prunes, forgets and backfills, rarely and long: a process (prefork)
    - **sweep** closes idle sessions and makes up for lost wake-ups, every few seconds: a thread (threads)

    A worker of several queues runs them in the pool that the first one needs. Each queue needs at least one worker,
    and the whole deployment one **backscroll beat**. On TERM a worker has 30 seconds to finish its jobs and hands the
    rest back; give it more than that before you kill it.
    """
    from ops.local.processes import worker_command
    from workers.queues import QUEUES

    names = queue or [name for name in QUEUES if name != "embed"]
    if unknown := [name for name in names if name not in QUEUES]:
        raise InvalidInput(f"there is no queue {unknown[0]}; there are {', '.join(QUEUES)}", field="queue")
    run_instead(connection.open_stack(data_dir), worker_command(names, concurrency=concurrency))


def run_instead(settings: Settings, command: list[str]) -> None:
    """Replace this process by a command that finds these settings in its environment."""
    from ops.local.processes import environment

    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment(settings))  # noqa: S606 - our own Python, without a shell
