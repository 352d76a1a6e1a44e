"""The user that an embedded server runs as: ours, or an ordinary one if we are root.

For root a server runs as the owner of the data folder; if that is root, too, under a number without an account: other
processes of an existing one could read the files and end the server. The owner of the server's own folder remembers
the choice. Such a user need not reach the data folder: we enter it as root and drop our rights after, and the server
names every file relative to its working directory (`/proc/self/cwd`).
"""

import contextlib
import os
import pwd
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import Permanent

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
