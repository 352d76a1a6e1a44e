"""Limit the size of a log whose process never closes it."""

import os
import shutil
from pathlib import Path

LIMIT_BYTES = 10_000_000


def rotate(path: Path) -> None:
    """Move the last `LIMIT_BYTES` of a log that is larger to `NAME.log.1`, while its process appends to it.

    It is copied and truncated, since the process keeps its descriptor; what is written between the two is lost. Raises
    `OSError` if it cannot be copied, and truncates it all the same.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    if size <= LIMIT_BYTES:
        return
    try:
        kept = os.open(path.with_suffix(".log.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(kept, "wb") as target, path.open("rb") as source:
            source.seek(max(0, size - LIMIT_BYTES))
            shutil.copyfileobj(source, target)
    finally:
        os.truncate(path, 0)
