"""`backscroll up`: everything on this machine with one command and one data folder."""

import json
import shlex
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ops import connection
from ops.console.command import DataDirOption, command
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.errors import InvalidInput
from schemas.settings import Settings

if TYPE_CHECKING:
    from ops.local.launch import Launched


app = typer.Typer(rich_markup_mode="markdown")

# A demo does not wait long for late messages.
DEMO_SECONDS = {"sweep_seconds": 1.0, "summarize_debounce_seconds": 1.0}


@command(app, "backscroll up")
def up(
    demo: Annotated[bool, "Import a sample conversation and answer five questions about it."] = False,
    light: Annotated[bool, "Embed without a model (deterministic), even where one is installed."] = False,
    english: Annotated[bool, "Embed with the English model, which takes half the time."] = False,
    leave: Annotated[
        bool, typer.Option("--exit", help="Stop when all has started (and the demo is done).")
    ] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="HTTP port (0: a free one).")] = None,
    flower_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Flower's port (0: a free one).")
    ] = None,
    flower: Annotated[bool, "Start Flower to watch tasks."] = True,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of /metrics (0: a free one).")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Start Postgres, Redis, the workers of every queue, the clock, the HTTP API, the metrics and Flower.

    Runs until Ctrl-C, which stops everything; started again, it continues with its data. Everything that it keeps is
    in the data folder. Postgres or Redis is not started if `BACKSCROLL_DATABASE_URL` or `BACKSCROLL_REDIS_URL` names
    one of your own. All of it listens only on this machine, and nothing leaves it unless a setting names a model that
    is elsewhere; then it says so.

    With `--demo --exit` the exit code is 0 only if every step worked, and 5 if an answer is not what it should be.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    console = Console(highlight=False)
    began = time.monotonic()
    settings = connection.configured(data_dir)
    console.print(
        f"Starting Backscroll with the data folder {settings.data_dir}", soft_wrap=True, markup=False
    )

    from ops.local.launch import Choices, everything

    ports = {"port": port, "flower_port": flower_port, "metrics_port": metrics_port}
    changed: dict[str, float] = {name: value for name, value in ports.items() if value is not None}
    if demo:
        changed |= {n: v for n, v in DEMO_SECONDS.items() if n not in settings.model_fields_set}
    settings = settings.model_copy(update=changed)
    if light and english:
        raise InvalidInput(
            "--light is for no model, and --english for one: leave one of them out", field="light"
        )
    flag = "--light" if light else "--english" if english else None
    choices = Choices(flower=flower, asked=flag)

    def say(sentence: str) -> None:
        console.print(f"  {sentence}", soft_wrap=True, markup=False)

    worked = True
    with everything(settings, choices, say) as launched:
        console.print(f"Ready after {time.monotonic() - began:.1f} s")
        try:
            if demo:
                from ops.local.demo import show

                worked = show(launched, console)
            if not leave:
                # without a terminal it goes into a log, which others read
                secrets = console.is_terminal
                _print_usage(launched, console, secrets=secrets, generated=settings.api_key is None)
                console.print("\nCtrl-C stops everything; started again, it continues with its data.")
                while True:
                    launched.wait(1.0)
        except KeyboardInterrupt:
            worked = worked or not leave
            console.print("\nStopping …")
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
    console.print("Stopped.")
    if not worked:
        sys.exit(NOT_AS_IT_SHOULD_BE)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Do on TERM, and when the terminal closes, what Ctrl-C does."""
    raise KeyboardInterrupt


def _print_usage(launched: "Launched", console: Console, *, secrets: bool, generated: bool) -> None:
    """Print where everything is and how to use it, in lines that can be copied; the `secrets`, or where they are."""
    running, folder = launched.running, launched.settings.data_dir
    key, password = running.api_key, running.flower_password
    if not secrets:
        key = f"$(cat {shlex.quote(str(folder / 'api-key'))})" if generated else "$BACKSCROLL_API_KEY"
        password = f"$(cat {shlex.quote(str(folder / 'flower-password'))})"
    lines = [f"\nHTTP API     {running.api_url}", f"API key      {key}", f"Data folder  {folder}"]
    lines += [f"Inspector    {running.api_url}/inspect", f"Metrics      {running.metrics_url}/metrics"]
    if running.flower_url:
        lines += [f"Flower       {running.flower_url}  user backscroll, password {password}"]
    lines += ["\nIn another terminal:\n", *shell_lines(launched.settings.data_dir)]
    lines += ["\nOr over HTTP:\n", *curl_lines(running.api_url, key, datetime.now(UTC))]
    console.print("\n".join(lines), soft_wrap=True, markup=False)


def shell_lines(data_dir: Path) -> list[str]:
    """List what makes `backscroll` in another terminal find this environment and this data folder."""
    activate = Path(sys.prefix) / "bin/activate"
    lines = [f"source {shlex.quote(str(activate))}"] if activate.is_file() else []
    # the default needs no variable
    if data_dir != Settings.model_fields["data_dir"].get_default(call_default_factory=True):
        lines.append(f"export BACKSCROLL_DATA_DIR={shlex.quote(str(data_dir))}")
    return [*lines, "backscroll chats"]


def curl_lines(api_url: str, api_key: str, now: datetime) -> list[str]:
    """List four commands that show what the HTTP API does, to be pasted into a shell."""
    message = {
        "external_id": f"curl-{now:%H%M%S}",
        "sender_id": "demo:you",
        "sender_name": "You",
        "content": "The spare key is under the third flower pot.",
        "sent_at": now.isoformat(timespec="seconds"),
    }
    payload = {"chat": "demo:kitchen", "messages": message}
    query = {"chat_id": "demo:kitchen", "query": "Where is the spare key?"}
    authorized = f"-H \"Authorization: Bearer {api_key}\" -H 'Content-Type: application/json'"
    curl = r"curl -sw '\n'"
    return [
        f"{curl} {api_url}/healthz",
        f"{curl} {api_url}/readyz",
        f"{curl} {api_url}/v1/messages {authorized} -d '{json.dumps(payload)}'",
        f"{curl} {api_url}/v1/context {authorized} -d '{json.dumps(query)}'",
    ]
