"""A small disk of its own for a chaos run, so that it can be full without harm to anything else.

A file system in memory, mounted where only this process and its children see it, and gone with them. That takes root
on Linux; elsewhere the reason is given, and the fault is left out.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ops.dev.chaos import namespaces
from ops.dev.chaos.namespaces import NoNamespace

# Nothing is taken before it is written; a run of 20,000 messages writes a third of it.
SIZE = "3g"


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[str | None]:
    """Let the folder be a disk of its own; yields why it cannot be, if so. To be called by the main thread."""
    reason = None
    try:
        namespaces.unshare(namespaces.NEW_MOUNTS)
        # not even other programs of ours see what is mounted from here on
        namespaces.run("mount", "--make-rprivate", "/")
        namespaces.run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "backscroll", str(folder))
    except NoNamespace as error:
        reason = str(error)
    try:
        yield reason
    finally:
        if reason is None:
            namespaces.run("umount", "--lazy", str(folder))


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """While this holds nothing more fits on the disk."""
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
