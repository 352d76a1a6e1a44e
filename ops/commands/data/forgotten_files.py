"""Files with suppression lists, a tenant's on each line, which only their owner may read."""

import json
from pathlib import Path

from ops.local.embedded.folder import write_private
from schemas.errors import InvalidInput
from schemas.forgetting import Forgotten
from schemas.payloads import parse_payload


def write_forgotten(path: Path, forgotten: Forgotten) -> None:
    """Write a tenant's list. Raises `DataFolderError`."""
    write_private(path.absolute(), forgotten.model_dump_json() + "\n")


def read_forgotten(path: Path) -> list[Forgotten]:
    """Read the lists of a file. Raises `InvalidInput`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="forgotten") from None
    try:
        return [parse_payload(Forgotten, json.loads(line)) for line in lines if line.strip()]
    except ValueError as error:
        raise InvalidInput(f"{path} is no suppression list: {error}", field="forgotten") from None
