"""Makes the folders and private files that the embedded servers keep their data in.

Nothing that we did not create ever has its permissions changed.
"""

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
    """Create the folder, closed to others, or check that an existing one can be written to, not by everybody.

    Raises `DataFolderError`.
    """
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if folder.stat().st_mode & stat.S_IWOTH:
            raise DataFolderError(
                f"Everybody may write to the data folder {folder}, and so replace what is in it. Name another "
                "with BACKSCROLL_DATA_DIR: one that does not exist yet is made, closed to others."
            )


def write_private(path: Path, text: str) -> None:
    """Put the text into a file for its owner alone, at once: readers, and a crash, see the old or the new.

    The file belongs to the folder's owner, so that a data folder once used through `sudo` still works
    without. It is made under a fresh name and moved into place, so that a link planted there is replaced,
    not followed.
    """
    folder = path.parent
    with explained(folder):
        fresh = folder / f".{path.name}.{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if os.geteuid() == 0:
                owner = folder.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what the operating system says about the folder into a `DataFolderError` that helps."""
    try:
        yield
    except PermissionError as error:
        user = user_name()
        message = (
            f"The data folder {folder} cannot be written to by {user} ({error.filename}: {error.strerror}). "
            f"Name another with BACKSCROLL_DATA_DIR, or hand this one over: "
            f"sudo chown -R {user} {shlex.quote(str(folder))}"
        )
        raise DataFolderError(message) from error
    except OSError as error:
        message = (
            f"The data folder {folder} cannot be used ({error.filename or folder}: {error.strerror}). "
            "Name another with BACKSCROLL_DATA_DIR."
        )
        raise DataFolderError(message) from error


def user_name() -> str:
    """The name of the user we run as, or the number where the machine has no name for it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
