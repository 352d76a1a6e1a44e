"""Namespaces of Linux: file systems and networks that only this process and its children see; they take root."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable

from schemas.errors import Permanent

NEW_MOUNTS, NEW_NETWORK = 0x20000, 0x40000000


class NoNamespace(Permanent):
    """Neither a disk nor hosts of its own can be made here; the message says why."""


def unshare(kind: int) -> None:
    """Move this thread, and what it starts, to a new namespace. Raises `NoNamespace`."""
    if sys.platform != "linux":
        raise NoNamespace("namespaces need Linux")
    if ctypes.CDLL(None, use_errno=True).unshare(kind) != 0:
        raise NoNamespace(f"a namespace cannot be made here: {os.strerror(ctypes.get_errno())}")


def unshare_after(first: Callable[[], None], kind: int) -> Callable[[], None]:
    """For a child before its program: call `first`, then `unshare`."""

    def before_exec() -> None:
        first()
        unshare(kind)

    return before_exec


def run(*command: str) -> None:
    """Run a command of the system. Raises `NoNamespace` when it fails or is missing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoNamespace(f"this needs `{command[0]}` (packages iproute2, mount and util-linux)") from error
    if done.returncode != 0:
        raise NoNamespace(f"{' '.join(command)}: {done.stderr.strip()}")
