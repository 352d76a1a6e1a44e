"""Create a Postgres cluster (`initdb`), and the settings that the embedded server is started with."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ops.local.embedded.account import Account, give_away, named_account, rights
from ops.local.embedded.binaries import reachable_postgres
from ops.local.embedded.folder import explained
from ops.local.embedded.ports import LOOPBACK
from ops.local.embedded.server import ServerFailed

SUPERUSER = "postgres"
INITDB_SECONDS = 120
# Docker's /dev/shm has 64 MB, into which a parallel index build does not fit.
ENOUGH_SHM_BYTES = 512_000_000

HBA = f"""\
# Written at every start. No connection without a password; none of the superuser over the network.
local all all scram-sha-256
host all {SUPERUSER} all reject
host all all {LOOPBACK}/32 scram-sha-256
"""

SETTINGS = {
    "cluster_name": "backscroll",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "random_page_cost": "1.1",
    # JIT compilation pays off only for queries of seconds
    "jit": "off",
    "synchronous_commit": "on",
    "wal_compression": "on",
    # an import changes a table's size faster than the planner's statistics follow by default
    "autovacuum_naptime": "10s",
    # a process that stopped in a transaction must release its locks
    "idle_in_transaction_session_timeout": "10s",
    "client_connection_check_interval": "10s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    # keep what people wrote out of the log: statements, and the rows that a detail quotes
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
# Commits still reach the operating system, so killing the server loses none of them.
THROWAWAY_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


def settings(*, port: int, tcp: bool, sockets: str, durable: bool) -> dict[str, str]:
    """Make the server's settings; `sockets` is the folder of its socket, as the server sees it."""
    chosen = SETTINGS | {
        "port": str(port),
        "listen_addresses": LOOPBACK if tcp else "",
        "unix_socket_directories": sockets,
        "unix_socket_permissions": "0700",
    }
    shared_memory = Path("/dev/shm")  # noqa: S108 - only looked at
    if shared_memory.exists() and shutil.disk_usage(shared_memory).total < ENOUGH_SHM_BYTES:
        chosen["dynamic_shared_memory_type"] = "mmap"
    return chosen if durable else chosen | THROWAWAY_SETTINGS


def initialize(
    installation: Path, cluster: Path, version: int, account: Account | None, password: str, *, durable: bool
) -> None:
    """Create an empty cluster for the account, with UTF-8, checksums and this password of the superuser.

    It is created beside its place, in a private folder, and moved when complete, so that an interrupted start leaves
    nothing half done. Raises `ServerFailed`.
    """
    staging = cluster.with_name(f".{cluster.name}.new")
    with explained(cluster.parent):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
    # `initdb` insists on a user with a name
    maker = named_account(account) if account else None
    program = reachable_postgres(installation, maker) / "bin/initdb"
    # Text search takes letters from the locale: with plain C, "Äpfel" and "äpfel" are two words. The builtin C.UTF-8
    # of Postgres 17 and newer needs no locale of the machine.
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    fresh = staging / "data"
    fresh.mkdir(mode=0o700)
    if maker:
        give_away(fresh, maker)
    command: list[str | Path] = [
        program,
        "-D",
        "/proc/self/cwd" if maker else fresh,
        "-U",
        SUPERUSER,
        "--encoding=UTF8",
    ]
    command += [*(locale if version >= 17 else ["--locale=C.UTF-8"]), *([] if durable else ["--no-sync"])]
    command += ["--data-checksums", "--auth=scram-sha-256", "--pwfile=/dev/stdin"]
    run = _run(command, fresh, maker, password)
    if run.returncode:
        output = (run.stdout + run.stderr)[-3000:]
        raise ServerFailed(f"The embedded Postgres could not be set up in {cluster}:\n{output}")
    if account:
        give_away(fresh, account)
    fresh.rename(cluster)
    shutil.rmtree(staging)


def _run(
    command: list[str | Path], directory: Path, maker: Account | None, password: str
) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryFile() as secret:
        secret.write(password.encode())
        secret.seek(0)
        if maker:
            # the account reopens it by its name under /dev
            os.fchown(secret.fileno(), maker.uid, maker.gid)
        try:
            return subprocess.run(
                command,
                cwd=directory,
                env={"PATH": os.defpath, "LC_MESSAGES": "C"},
                stdin=secret,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=INITDB_SECONDS,
                check=False,
                umask=0o077,
                **rights(maker),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerFailed(f"{command[0]} cannot be run: {error}") from error
