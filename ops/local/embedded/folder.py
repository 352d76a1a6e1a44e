"""The folders, private files, locks and logs of the embedded servers, and the user that they run as.

Permissions of what we did not create never change. A lock shows whether a server runs: its processes inherit the
descriptor of a locked file (`flock`), and the kernel releases the lock when the last of them has ended, however it
ended. So no process number is mistaken for another's.

For root a server runs as the owner of the data folder; if that is root, too, under a number without an account: other
processes of an existing one could read the files and end the server. The owner of the server's own folder remembers
the choice. Such a user need not reach the data folder: we enter it as root and drop our rights after, and the server
names every file relative to its working directory (`/proc/self/cwd`).
"""

import contextlib
import fcntl
import os
import pwd
import secrets
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import Permanent

LOG_BYTES = 10_000_000
LOOK_SECONDS = 0.01


class DataFolderError(Permanent):
    """The data folder cannot be used; the message names it and says what to do."""


def make_folder(folder: Path) -> None:
    """Create the folder, closed to others, or check an existing one. Raises `DataFolderError`."""
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if folder.stat().st_mode & stat.S_IWOTH:
            raise DataFolderError(
                f"Everybody may write to the data folder {folder} and replace what is there. Name another "
                "with BACKSCROLL_DATA_DIR: one that does not exist yet is made, closed to others."
            )


def open_private(path: Path, flags: int) -> int:
    """Open the file, created with mode 0600 if it is missing; links are not followed."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        # so that a folder once used by root still works for its user
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Write the text atomically into a file with mode 0600; a link planted there is replaced, not followed."""
    folder = path.parent
    with explained(folder):
        fresh = folder / f".{path.name}.{secrets.token_hex(8)}"
        with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_EXCL), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an `OSError` about the folder into a `DataFolderError` with advice."""
    try:
        yield
    except PermissionError as error:
        try:
            user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            user = str(os.geteuid())
        message = (
            f"The data folder {folder} cannot be written to by {user} ({error.filename}: {error.strerror}). "
            "Name another with BACKSCROLL_DATA_DIR"
        )
        if os.access(folder, os.F_OK):
            message += f", or hand this one over: sudo chown -R {user} {shlex.quote(str(folder))}"
        raise DataFolderError(message) from error
    except OSError as error:
        message = (
            f"The data folder {folder} cannot be used ({error.filename or folder}: {error.strerror}). "
            "Name another with BACKSCROLL_DATA_DIR."
        )
        raise DataFolderError(message) from error


def open_lock(path: Path) -> int:
    """Open the lock's file, without locking it."""
    return open_private(path, os.O_RDONLY)


def take(descriptor: int) -> bool:
    """Lock the file for all who have or inherit this descriptor; returns False if another has locked it."""
    if _flock(descriptor, fcntl.LOCK_EX):
        return True
    # `is_taken` holds it for a moment
    time.sleep(LOOK_SECONDS)
    return _flock(descriptor, fcntl.LOCK_EX)


def is_taken(path: Path) -> bool:
    """Return whether the lock is held."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _flock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def rotate(path: Path) -> None:
    """Move the last `LOG_BYTES` of a log that is larger to `NAME.log.1`, while its process keeps it open.

    Raises `OSError` if it cannot be copied, and truncates it all the same.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    if size <= LOG_BYTES:
        return
    try:
        kept = os.open(path.with_suffix(".log.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(kept, "wb") as target, path.open("rb") as source:
            source.seek(max(0, size - LOG_BYTES))
            shutil.copyfileobj(source, target)
    finally:
        os.truncate(path, 0)


# Not assigned to people, packages, or systemd's dynamic and container users (https://systemd.io/UIDS-GIDS), and
# below the 65,536 of an unprivileged container.
UNUSED_NUMBERS = range(60578, 61184)


@dataclass(frozen=True)
class Account:
    """The user and group numbers of a server."""

    uid: int
    gid: int


def rights(account: Account | None) -> dict[str, Any]:
    """Make the arguments of `subprocess.Popen` that run a process as the account; None: as ourselves."""
    return {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}


def account_for(data_dir: Path, server_dir: Path) -> Account | None:
    """Choose the account of the server whose own folder is, or will be, `server_dir`; None: ourselves."""
    if os.geteuid() != 0:
        return None
    if sys.platform != "linux":
        raise Permanent("As root the embedded servers work only on Linux; start them as an ordinary user.")
    for folder in (server_dir, data_dir):
        if folder.exists():
            owner = folder.stat()
            if owner.st_uid != 0:
                return Account(owner.st_uid, owner.st_gid)
    known = {account.pw_uid for account in pwd.getpwall()}
    number = next(number for number in UNUSED_NUMBERS if number not in known)
    return Account(number, number)


def named_account(account: Account) -> Account:
    """Return the account, or if it has no name one that has and runs nothing: `initdb` insists on a name."""
    with contextlib.suppress(KeyError):
        pwd.getpwuid(account.uid)
        return account
    busy = set()
    for process in Path("/proc").glob("[0-9]*"):
        # it may end while we look
        with contextlib.suppress(FileNotFoundError):
            busy.add(process.stat().st_uid)
    for known in pwd.getpwall():
        if known.pw_uid and known.pw_uid not in busy:
            return Account(known.pw_uid, known.pw_gid)
    raise Permanent(
        "The embedded Postgres cannot be set up as root without any other account on the machine."
    )


def give_away(tree: Path, account: Account) -> None:
    """Make the account the owner of the folder and everything in it, unless it owns the folder already."""
    # its owner could place links in it, so nothing there is changed as root any more
    if tree.stat().st_uid == account.uid:
        return
    for folder, folders, files in os.walk(tree):
        for name in folders + files:
            os.chown(Path(folder, name), account.uid, account.gid, follow_symlinks=False)
    os.chown(tree, account.uid, account.gid)
