"""The file in the data folder by which other processes find a running `backscroll up`.

`stack.json` (0600) holds all URLs with their passwords; `stack.lock` is locked as long as the process lives, however
it ends, so that the file is believed only while it is true.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

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


def running(data_dir: Path) -> Running | None:
    """Read the state of a running `backscroll up` here, if any. Raises `PermissionError` for another user's folder."""
    if not is_taken(data_dir / LOCK):
        return None
    try:
        return Running(**json.loads((data_dir / STATE).read_bytes()))
    except FileNotFoundError:
        # it is still starting
        return None


@contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Hold the lock of `backscroll up` during a block. Raises `RunsAlready`."""
    with explained(data_dir):
        lock = open_lock(data_dir / LOCK)
    try:
        if not take(lock):
            other = running(data_dir)
            state = f"process {other.pid}, HTTP API {other.api_url}" if other else "just starting or stopping"
            how = f"`kill {other.pid}` or Ctrl-C in its terminal" if other else "Ctrl-C in its terminal"
            raise RunsAlready(
                f"Backscroll runs already with the data folder {data_dir} ({state}). Use it as it is, stop it first "
                f"({how}), or name another folder with --data-dir."
            )
        # a killed run may have left it
        withdraw(data_dir)
        yield
    finally:
        os.close(lock)


def publish(data_dir: Path, state: Running) -> None:
    """Publish the state. Raises `DataFolderError`."""
    write_private(data_dir / STATE, json.dumps(asdict(state), indent=1))


def withdraw(data_dir: Path) -> None:
    """Remove the published state."""
    (data_dir / STATE).unlink(missing_ok=True)
