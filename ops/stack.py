"""What other processes know of a running `backscroll up`: the file that it keeps in its data folder.

`stack.json` (0600) says where everything is to be reached, with passwords; `stack.lock` is locked for as
long as the process lives, however it ends, so that what the file says is believed only while it is true.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ops.embedded.folder import write_private
from ops.embedded.lock import is_taken

STATE = "stack.json"
LOCK = "stack.lock"


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where the processes of a running `backscroll up` are to be reached."""

    pid: int
    door_url: str
    api_key: str
    database_url: str
    maintenance_database_url: str
    owner_database_url: str
    redis_url: str
    # whose data the door serves; none: it does not say
    tenant: str | None = None
    # what makes the vectors: a question must be embedded as the messages were
    embedding_provider: str | None = None
    embedding_model: str | None = None
    # none: started without it
    flower_url: str | None = None
    flower_password: str | None = None


def running(data_dir: Path) -> Running | None:
    """What runs with this data folder now, or None. Raises `PermissionError` for somebody else's."""
    if not is_taken(data_dir / LOCK):
        return None
    try:
        told = json.loads((data_dir / STATE).read_bytes())
    except FileNotFoundError:
        # it is only starting
        return None
    # a newer version may tell more
    return Running(**{field.name: told[field.name] for field in fields(Running) if field.name in told})


def publish(data_dir: Path, state: Running) -> None:
    """Tell other processes what runs. Raises `DataFolderError`."""
    write_private(data_dir / STATE, json.dumps(asdict(state), indent=1))


def withdraw(data_dir: Path) -> None:
    """Tell other processes that nothing runs any more."""
    (data_dir / STATE).unlink(missing_ok=True)
