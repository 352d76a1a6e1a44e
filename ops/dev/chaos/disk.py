"""A small disk of its own for a chaos run, so that it can be full without harm to anybody else.

A file system in memory, mounted where nobody but this process and its children sees it, and gone with them. That
takes root on Linux; elsewhere the reason is told, and the fault is left out.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Nothing is taken before it is written; a run of 20,000 messages writes a third of it.
SIZE = "3g"
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x20000, 0x4000, 0x40000, 2


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[str | None]:
    """Let the folder be a disk of its own; yields why it cannot be, if so. To be called by the main thread."""
    reason = _mount(folder)
    try:
        yield reason
    finally:
        if reason is None:
            _libc().umount2(os.fsencode(folder), _MNT_DETACH)


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


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(folder: Path) -> str | None:
    if sys.platform != "linux":
        return "a disk of its own needs Linux"
    libc = _libc()
    steps: tuple[Callable[[], int], ...] = (
        # not even other programs of ours see what is mounted from here on
        lambda: libc.unshare(_CLONE_NEWNS),
        lambda: libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: libc.mount(
            b"backscroll", os.fsencode(folder), b"tmpfs", 0, f"size={SIZE},mode=0700".encode()
        ),
    )
    for step in steps:
        if step() != 0:
            return f"a disk of its own cannot be mounted: {os.strerror(ctypes.get_errno())}"
    return None
