"""The lock that says whether a server runs, held by the server's own processes.

They inherit the descriptor of a locked file (`flock`). The kernel lets go of the lock when the last of them
is gone, however it went: so whether one runs has one true answer after any crash, and no process number is
ever mistaken for another's.
"""

import fcntl
import os
import time
from pathlib import Path

from ops.embedded.folder import open_private

LOOK_SECONDS = 0.01


def open_lock(path: Path) -> int:
    """A descriptor of the lock's file, not locked yet."""
    return open_private(path, os.O_RDONLY)


def take(descriptor: int) -> bool:
    """Lock the file for whoever has this descriptor or inherits it; False when another has it locked."""
    if _flock(descriptor, fcntl.LOCK_EX):
        return True
    # somebody may only have been looking: `is_taken` holds it for a moment
    time.sleep(LOOK_SECONDS)
    return _flock(descriptor, fcntl.LOCK_EX)


def is_taken(path: Path) -> bool:
    """Whether somebody holds the lock."""
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
