"""The file in the data folder by which other processes find a running `backscroll up`.

`stack.json` (0600) holds all URLs with their passwords; `stack.lock` is locked as long as the process lives, however
it ends, so that the file is believed only while it is true.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ops.local.embedded.folder import is_taken, write_private

STATE = "stack.json"
LOCK = "stack.lock"


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where the processes of a running `backscroll up` can be reached."""

    pid: int
    api_url: str
    api_key: str
    database_url: str
    maintenance_database_url: str
    owner_database_url: str
    redis_url: str
    # whose data the HTTP API serves
    tenant: str
    # questions must be embedded as the messages were
    embedding_provider: str | None = None
    embedding_model: str | None = None
    # None: started without Flower
    flower_url: str | None = None
    flower_password: str | None = None


def running(data_dir: Path) -> Running | None:
    """Read what runs with this data folder now, if anything. Raises `PermissionError` for another user's."""
    if not is_taken(data_dir / LOCK):
        return None
    try:
        return Running(**json.loads((data_dir / STATE).read_bytes()))
    except FileNotFoundError:
        # it is still starting
        return None


def publish(data_dir: Path, state: Running) -> None:
    """Publish what runs. Raises `DataFolderError`."""
    write_private(data_dir / STATE, json.dumps(asdict(state), indent=1))


def withdraw(data_dir: Path) -> None:
    """Remove what was published."""
    (data_dir / STATE).unlink(missing_ok=True)
