"""The file in the data folder by which other processes find a running `backscroll up`.

`stack.json` (0600) holds all URLs with their passwords; `stack.lock` is locked as long as the process lives, however
it ends, so that the file is believed only while it is true. While it starts the file says only that.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ops.local.embedded.folder import explained, is_taken, open_lock, take, write_private
from schemas.errors import Retryable

STATE = "stack.json"
LOCK = "stack.lock"


class RunsAlready(Retryable):
    """Another `backscroll up` runs with this data folder."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """The addresses of the processes of a running `backscroll up`."""

    pid: int
    api_url: str
    api_key: str
    database_url: str
    maintenance_database_url: str
    owner_database_url: str
    redis_url: str
    # the tenant that the HTTP API serves
    tenant: str
    # the addresses of model servers; the database says which model embeds
    model_servers: Mapping[str, str | None] = field(default_factory=dict)
    # of the process that serves /metrics
    metrics_url: str = ""
    # None: started without Flower
    flower_url: str | None = None
    flower_password: str | None = None
    # why a process of it, by its name, ends again and again
    failing: Mapping[str, str] = field(default_factory=dict)


Phase = Literal["starting", "ending", "killed", "none"]


def running(data_dir: Path) -> Running | None:
    """Read the state of a running `backscroll up` here, if any. Raises `PermissionError` for another user's folder."""
    state = _read(data_dir)
    return Running(**state) if state and "phase" not in state and is_taken(data_dir / LOCK) else None


def visible(data_dir: Path) -> Running | None:
    """Read the same; None also where it is another user's."""
    try:
        return running(data_dir)
    except PermissionError:
        return None


def absence(data_dir: Path) -> tuple[Phase, str]:
    """Say why no `backscroll up` can be used here, and what to do. Raises as `running` does."""
    state, here = _read(data_dir), f"with the data folder {data_dir}"
    if is_taken(data_dir / LOCK):
        if state and "phase" in state:
            return "starting", f"`backscroll up` is starting {here}: wait until it is ready"
        return (
            "ending",
            f"`backscroll up` is stopping, or a restore is working, {here}: wait until it has ended",
        )
    if state is None:
        return "none", f"Nothing runs {here}: start it with `backscroll up`"
    return (
        "killed",
        f"The last `backscroll up` {here} was killed or crashed: start it again with `backscroll up`",
    )


def require_free(data_dir: Path) -> None:
    """Raise `RunsAlready` if another process holds the data folder."""
    with explained(data_dir):
        if not is_taken(data_dir / LOCK):
            return
        other = running(data_dir)
    if other is None:
        raise RunsAlready(f"{absence(data_dir)[1]}, or name another folder with --data-dir.")
    raise RunsAlready(
        f"Backscroll runs already with the data folder {data_dir} (process {other.pid}, HTTP API {other.api_url}). Use "
        f"it as it is, stop it first (`kill {other.pid}` or Ctrl-C in its terminal), or name another folder with "
        "--data-dir."
    )


@contextmanager
def alone(data_dir: Path, *, starts: bool = False) -> Iterator[None]:
    """Hold the lock of `backscroll up` during a block, which `starts` one. Raises `RunsAlready`."""
    with explained(data_dir):
        lock = open_lock(data_dir / LOCK)
    try:
        while not take(lock):
            require_free(data_dir)
        # a killed run may have left it
        withdraw(data_dir)
        if starts:
            publish(data_dir, {"phase": "starting"})
        try:
            yield
        finally:
            withdraw(data_dir)
    finally:
        os.close(lock)


def publish(data_dir: Path, state: Running | dict[str, str]) -> None:
    """Publish the state. Raises `DataFolderError`."""
    content = asdict(state) if isinstance(state, Running) else state
    write_private(data_dir / STATE, json.dumps(content, indent=1))


def withdraw(data_dir: Path) -> None:
    """Remove the published state."""
    (data_dir / STATE).unlink(missing_ok=True)


def _read(data_dir: Path) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads((data_dir / STATE).read_bytes())
    except FileNotFoundError:
        return None
    return state
