"""The lock that shows whether a server runs, held by the server's own processes.

They inherit the descriptor of a locked file (`flock`). The kernel releases the lock when the last of them has ended,
however it ended: so the answer is right after any crash, and no process number is mistaken for another's.
"""

import fcntl
import os
import time
from pathlib import Path

from ops.local.embedded.folder import open_private

LOOK_SECONDS = 0.01


def open_lock(path: Path) -> int:
    """Open the lock's file, without locking it."""
    return open_private(path, os.O_RDONLY)


def take(descriptor: int) -> bool:
    """Lock the file for all who have or inherit this descriptor; returns False if another has locked it."""
    if _flock(descriptor, fcntl.LOCK_EX):
        return True
    # `is_taken` holds it for a moment
    time.sleep(LOOK_SECONDS)
    return _flock(descriptor, fcntl.LOCK_EX)


def is_taken(path: Path) -> bool:
    """Return whether the lock is held."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _flock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
