"""Keeps the log of a process that never closes it within a size."""

import os
import shutil
from pathlib import Path

LIMIT_BYTES = 10_000_000


def rotate(path: Path) -> None:
    """Move what the log holds to `NAME.log.1` once it is larger than `LIMIT_BYTES`; whoever appends to it goes on.

    It is copied, at most its last `LIMIT_BYTES`, and cut off: the process keeps its descriptor. Only what is written
    in the moment between the two is lost. Raises `OSError` where it cannot be copied; it is cut off all the same.
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
