"""The folders and private files of the embedded servers; permissions of what we did not create never change."""

import contextlib
import os
import pwd
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import Permanent


class DataFolderError(Permanent):
    """The data folder cannot be used; the message names it and says what to do."""


def make_folder(folder: Path) -> None:
    """Create the folder, closed to others, or check that we, and not everybody, can write to an existing one.

    Raises `DataFolderError`.
    """
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
    """Open the file, created with mode 0600 if it is missing; links are not followed.

    A file created by root belongs to the folder's owner, so that a data folder once used by root still works for
    its user.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Write the text atomically into a file with mode 0600: readers, and a crash, see the old or the new text.

    It is created under a fresh name and moved into place: a link planted there is replaced, not followed.
    """
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
    """Turn an `OSError` about the folder into a `DataFolderError` that helps."""
    try:
        yield
    except PermissionError as error:
        user = user_name()
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


def user_name() -> str:
    """Return the name of our user, or the number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
