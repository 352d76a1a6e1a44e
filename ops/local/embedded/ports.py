"""Free TCP ports."""

import contextlib
import socket
import sys
from collections.abc import Iterator

from schemas.errors import Permanent

LOOPBACK = "127.0.0.1"


class PortTaken(Permanent):
    """A port that was named cannot be listened on."""


@contextlib.contextmanager
def reserved(port: int, host: str = LOOPBACK) -> Iterator[int]:
    """Keep a port, any free one for 0, for a server of ours during a block. Raises `OSError` if it cannot be had.

    On Linux our own processes can still listen on it meanwhile, but no other deployment on this machine reserves it,
    and the kernel uses it for no outgoing connection.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as holder, contextlib.ExitStack() as cleanup:
        # as servers do: connections in TIME_WAIT do not count
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        port = int(holder.getsockname()[1])
        if sys.platform == "linux":
            # a name that the kernel knows, for all users, until this process ends in whatever way
            claim = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            claim.bind(f"\0backscroll-port-{port}")
        else:
            holder.close()
        yield port


def free_port(host: str = LOOPBACK) -> int:
    """Find a TCP port on which nothing listens now; another program may still take it first."""
    with reserved(0, host) as port:
        return port


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    try:
        with reserved(port, host):
            return True
    except OSError:
        return False
