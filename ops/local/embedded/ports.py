"""Free TCP ports."""

import socket

from schemas.errors import Permanent

LOOPBACK = "127.0.0.1"


class PortTaken(Permanent):
    """Another program listens on the port."""


def free_port(host: str = LOOPBACK) -> int:
    """Find a TCP port on which nothing listens now; another program may still take it first."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do: connections in TIME_WAIT do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def require_free(port: int, what: str) -> None:
    """Raise `PortTaken`, with the name of the server, unless the port is free."""
    if not is_free(port):
        raise PortTaken(
            f"Port {port} on {LOOPBACK} for {what} is taken. Stop what listens there or name another."
        )
