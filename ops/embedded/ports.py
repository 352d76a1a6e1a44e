"""Answers which TCP ports of the loopback address are free, and says clearly when a wanted one is taken."""

import socket

from schemas.errors import Permanent

LOOPBACK = "127.0.0.1"


class PortTaken(Permanent):
    """Another program listens on a port that was asked for."""


def free_port(host: str = LOOPBACK) -> int:
    """A TCP port on which nothing listens at this moment; somebody else may still take it first."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do: connections that are still winding down do not count as taken
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def require_free(port: int, what: str, host: str = LOOPBACK) -> None:
    """Raise `PortTaken`, naming the server that wanted it, unless the port is free."""
    if not is_free(port, host):
        message = (
            f"Port {port} on {host}, wanted for {what}, is taken. Stop what listens there or name another."
        )
        raise PortTaken(message)
