"""A disk of its own: a file system in memory that can be full without harm to anything else, gone with this process.

It lies in a mount namespace, which takes root on Linux.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NEW_MOUNTS = 0x20000
# Nothing is taken before it is written; a run of 20,000 messages writes a third of it.
SIZE = "3g"


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[str | None]:
    """Make the folder a disk; yields why it cannot be, if so. To be called by the main thread."""
    reason = _mount(folder)
    try:
        yield reason
    finally:
        if reason is None:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(folder: Path) -> str | None:
    if sys.platform != "linux" or shutil.which("mount") is None:
        return "a disk of its own needs Linux and `mount`"
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) != 0:
        return f"a namespace cannot be made here: {os.strerror(ctypes.get_errno())}"
    # not even other programs of ours see what is mounted from here on
    private = ["mount", "--make-rprivate", "/"]
    memory = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "backscroll", str(folder)]
    for command in (private, memory):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return str(done.stderr).strip()
    return None


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the disk during a block."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        try:
            _fill(file.fileno())
            yield
        finally:
            filler.unlink()


def _fill(descriptor: int) -> None:
    size = 0
    # the last bytes in small steps
    for step in (1 << 24, os.sysconf("SC_PAGE_SIZE")):
        try:
            while True:
                os.posix_fallocate(descriptor, size, step)
                size += step
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
