"""Two hosts on one machine, joined by a network that can be cut: network namespaces, which take root on Linux.

This process moves to a namespace of its own, the near host; what is started by `Hosts.command` runs on the far one.
All of it is gone with this process, and nothing else sees any of it.
"""

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ops.dev.deployed import namespaces
from ops.dev.deployed.namespaces import run
from ops.local.embedded.ports import LOOPBACK, free_port
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.process import die_with_parent
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import Launch

NEAR, FAR = "192.0.2.1", "192.0.2.2"
"""Addresses that are set aside for documentation, so that none of a real network is hidden."""
# A neighbour that does not exist: frames to it leave and reach nothing, as behind a switch that died.
_NOBODY = "02:00:00:00:00:99"


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """The two hosts. All methods may be called from any thread that this process has started since."""

    # a process that keeps the far one's namespace
    keeper: int

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs this one on the far host."""
        return ["nsenter", f"--net=/proc/{self.keeper}/ns/net", "--", *command]

    def cut(self) -> None:
        """Let nothing through in either direction, and neither side notice."""
        nobody = ["lladdr", _NOBODY, "nud", "permanent"]
        run("ip", "neigh", "replace", FAR, *nobody, "dev", "near")
        run(*self.command(["ip", "neigh", "replace", NEAR, *nobody, "dev", "far"]))

    def restore(self) -> None:
        """Let everything through again."""
        run("ip", "neigh", "del", FAR, "dev", "near")
        run(*self.command(["ip", "neigh", "del", NEAR, "dev", "far"]))


class NetworkPostgres(EmbeddedPostgres):
    """An embedded Postgres that the far host reaches, too."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, host_tcp_port=free_port(), durable=True)

    def _prepare(self) -> Launch:
        launch = super()._prepare()
        with (launch.directory / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {FAR}/32 scram-sha-256\n")
        return replace(launch, command=[*launch.command, "-c", f"listen_addresses={LOOPBACK},{NEAR}"])


class NetworkRedis(EmbeddedRedis):
    """An embedded Redis that the far host reaches, too."""

    def _prepare(self) -> Launch:
        launch = super()._prepare()
        bind = f"bind {LOOPBACK}".encode()
        return replace(launch, config=launch.config.replace(bind, bind + f" {NEAR}".encode()))


def as_seen_from_afar(url: str) -> str:
    """Return the URL of a server on the near host, for a process on the far one.

    >>> as_seen_from_afar("redis://:secret@127.0.0.1:6379/0")
    'redis://:secret@192.0.2.1:6379/0'
    """
    return url.replace(f"@{LOOPBACK}:", f"@{NEAR}:")


def require() -> None:
    """Find out whether two hosts can be made here, without making them. Raises `NoNamespace`."""
    run("ip", "-Version")
    run("unshare", "--net", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far")


@contextlib.contextmanager
def joined() -> Iterator[Hosts]:
    """Make two hosts; this thread, and what it starts, stays on the near one afterwards. Raises `NoNamespace`."""
    require()
    namespaces.unshare(namespaces.NEW_NETWORK)
    die = die_with_parent(signal.SIGKILL)

    def leave() -> None:
        die()
        namespaces.unshare(namespaces.NEW_NETWORK)

    keeper = subprocess.Popen(["sleep", "infinity"], preexec_fn=leave)
    hosts = Hosts(keeper=keeper.pid)
    try:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(keeper.pid))
        run("ip", "address", "add", f"{NEAR}/30", "dev", "near")
        run("ip", "link", "set", "near", "up")
        for step in ("link set lo up", f"address add {FAR}/30 dev far", "link set far up"):
            run(*hosts.command(["ip", *step.split()]))
        yield hosts
    finally:
        keeper.kill()
        keeper.wait()
