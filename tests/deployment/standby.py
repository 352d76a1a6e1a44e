"""A streaming standby of a test's Postgres, which can be held back, killed and promoted."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from ops.local.embedded.binaries import postgres_installations
from ops.local.embedded.folder import account_for, give_away
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.server import LOOPBACK, free_port

PASSWORDS = "postgres-passwords.json"


class Standby(EmbeddedPostgres):
    """A server on a copy of another's cluster, with the same roles and passwords."""

    def _complete(self) -> None:
        """Leave the roles as they are: a standby takes no writes."""

    def run(self, statement: str) -> None:
        with psycopg.connect(self.superuser_dsn(), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def standby_of(primary: EmbeddedPostgres, folder: Path) -> Iterator[Standby]:
    """A standby that streams from the primary, on a port of its own."""
    (cluster,) = primary.data_dir.glob("postgres-[0-9]*")
    with (cluster / "pg_hba.conf").open("a") as access:
        access.write(f"host replication postgres {LOOPBACK}/32 scram-sha-256\n")
    Standby.run(primary, "SELECT pg_reload_conf()")  # type: ignore[arg-type]
    folder.mkdir(mode=0o700)
    copy = folder / cluster.name
    program = postgres_installations()[int(cluster.name.partition("-")[2])] / "bin/pg_basebackup"
    address = urlsplit(primary.dsn("app", tcp=True))
    password = urlsplit(primary.superuser_dsn()).password
    told = f"host={LOOPBACK} port={address.port} user=postgres password={password}"
    command = [str(program), "-D", str(copy), "-d", told, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    account = account_for(folder, copy)
    if account:
        give_away(copy, account)
    (folder / PASSWORDS).write_bytes((primary.data_dir / PASSWORDS).read_bytes())
    (folder / PASSWORDS).chmod(0o600)
    with Standby(folder, host_tcp_port=free_port(), durable=False) as standby:
        yield standby
