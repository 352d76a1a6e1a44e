"""Namespaces of Linux, file systems and networks that only this process and its children see; and a disk in one.

They take root. The disk is a file system in memory that can be full without harm to anything else, gone with this
process.
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

from schemas.errors import Permanent

NEW_MOUNTS, NEW_NETWORK = 0x20000, 0x40000000
# Nothing is taken before it is written; a run of 20,000 messages writes a third of it.
SIZE = "3g"


class NoNamespace(Permanent):
    """Neither a disk nor hosts of its own can be made here; the message says why."""


def unshare(kind: int) -> None:
    """Move this thread, and what it starts, to a new namespace. Raises `NoNamespace`."""
    if sys.platform != "linux":
        raise NoNamespace("namespaces need Linux")
    if ctypes.CDLL(None, use_errno=True).unshare(kind) != 0:
        raise NoNamespace(f"a namespace cannot be made here: {os.strerror(ctypes.get_errno())}")


def run(*command: str) -> None:
    """Run a command of the system. Raises `NoNamespace` when it fails or is missing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoNamespace(f"this needs `{command[0]}` (packages iproute2, mount and util-linux)") from error
    if done.returncode != 0:
        raise NoNamespace(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[str | None]:
    """Make the folder a disk; yields why it cannot be, if so. To be called by the main thread."""
    reason = None
    try:
        unshare(NEW_MOUNTS)
        # not even other programs of ours see what is mounted from here on
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "backscroll", str(folder))
    except NoNamespace as error:
        reason = str(error)
    try:
        yield reason
    finally:
        if reason is None:
            run("umount", "--lazy", str(folder))


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the disk during a block."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        try:
            _fill(file.fileno(), folder)
            yield
        finally:
            filler.unlink()


def _fill(descriptor: int, folder: Path) -> None:
    size = 0
    step = shutil.disk_usage(folder).free
    while step >= os.sysconf("SC_PAGE_SIZE"):
        try:
            os.posix_fallocate(descriptor, size, step)
        except OSError as error:
            # others write too
            if error.errno != errno.ENOSPC:
                raise
            step //= 2
        else:
            size += step
