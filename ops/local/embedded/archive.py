"""Dump a database into one file and restore it, by the `pg_dump` and `pg_restore` of an installed Postgres."""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops.local.embedded.binaries import ProgramMissing, postgres_installations
from schemas.errors import InvalidInput, Retryable

# Called often, with the step that begins.
OnStep = Callable[[str], None]

# The table shows that a file is ours, its row the version.
REVISION_TABLE = "alembic_version"
_STEP = re.compile(r'(?:contents of|data for) table "(?:public\.)?([^"]+)"|creating (INDEX "[^"]+")')
_REVISION = re.compile(rf"^COPY public\.{REVISION_TABLE} .*\n(\S+)\n\\\.$", re.MULTILINE)
# Of a program's output, for its error message.
LAST_LINES = 5


class ArchiveFailed(Retryable):
    """`pg_dump` or `pg_restore` failed; the message holds its output."""


def program(name: str, server_version: int | None = None) -> Path:
    """Find the oldest program for a server of this major version, or the newest. Raises `ProgramMissing`."""
    candidates: dict[int, Path] = {}
    # without the `embedded` extra there are none
    with contextlib.suppress(ProgramMissing):
        candidates |= {version: folder / "bin" / name for version, folder in postgres_installations().items()}
    if on_path := shutil.which(name):
        printed = subprocess.run([on_path, "--version"], capture_output=True, text=True, check=False).stdout
        if match := re.search(r"\) (\d+)", printed):
            candidates.setdefault(int(match[1]), Path(on_path))
    wanted = server_version or 0
    fitting = [version for version, path in candidates.items() if version >= wanted and path.exists()]
    if not fitting:
        raise ProgramMissing(
            f"There is no {name} of version {wanted} or newer: install Postgres's client programs, or "
            "`pip install 'backscroll[embedded]'`."
        )
    return candidates[min(fitting) if server_version else max(fitting)]


def dump(pg_dump: Path, dsn: str, target: Path, tell: OnStep) -> int:
    """Dump the database in Postgres's custom format, and move the complete file to its place; returns its bytes.

    Raises `ArchiveFailed`, and `InvalidInput` if it cannot be written.
    """
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # created by us, so that no other user may read it at any moment
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _run([pg_dump, "--format", "custom", "--file", fresh, "--verbose"], dsn, tell)
            with fresh.open("rb") as written:
                os.fsync(written.fileno())
            size = fresh.stat().st_size
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}", field="file") from error
    return size


def revision(pg_restore: Path, file: Path) -> str:
    """Read the migration of a file's tables. Raises `InvalidInput` for a file that is no backup of ours."""
    wrong = f"{file} is no backup of Backscroll"
    try:
        with file.open("rb") as opened:
            if opened.read(5) != b"PGDMP":
                raise InvalidInput(f"{wrong}: it is not in Postgres's custom format", field="file")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", field="file") from error
    command: list[str | Path] = [pg_restore, "--data-only", f"--table={REVISION_TABLE}", "--file=-", file]
    read = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if read.returncode:
        errors = read.stderr.strip().splitlines()[-1:] or [""]
        raise InvalidInput(f"{file} is damaged: {errors[0]}", field="file")
    match = _REVISION.search(read.stdout)
    if match is None:
        raise InvalidInput(f"{wrong}: it holds another database", field="file")
    return match[1]


def restore(pg_restore: Path, file: Path, dsn: str, jobs: int, tell: OnStep) -> None:
    """Restore a file into an empty database, as its superuser. Raises `ArchiveFailed`."""
    command: list[str | Path] = [pg_restore, "--exit-on-error", f"--jobs={jobs}", "--verbose", file]
    _run(command, dsn, tell)


def connection_arguments(dsn: str) -> tuple[str, dict[str, str]]:
    """Separate a URL from its password, which goes into the environment: every user can see arguments.

    >>> connection_arguments("postgresql://ann:secret@db.example.org/backscroll")
    ('user=ann dbname=backscroll host=db.example.org', {'PGPASSWORD': 'secret'})
    """
    known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    password = known.pop("password", None)
    return make_conninfo("", **known), {} if password is None else {"PGPASSWORD": password}


def _run(command: Sequence[str | Path], dsn: str, tell: OnStep) -> None:
    where, secret = connection_arguments(dsn)
    environment = {**os.environ, "LC_ALL": "C", **secret}
    lines: list[str] = []
    with subprocess.Popen(
        [*command, "--no-password", "--dbname", where],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            assert process.stderr is not None  # noqa: S101 - it is a pipe
            for line in process.stderr:
                if step := _STEP.search(line):
                    tell(step[1] or step[2])
                lines = [*lines, line.rstrip()][-LAST_LINES:]
        except BaseException:
            process.terminate()
            raise
    if code := process.returncode:
        shown = "\n".join(lines)
        raise ArchiveFailed(f"{Path(command[0]).name} failed with code {code}:\n{shown}")
