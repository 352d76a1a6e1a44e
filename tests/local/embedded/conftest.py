"""Helpers for the embedded servers' stories: real ones, in throwaway folders, as root and as others."""

import contextlib
import os
import pwd
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ops.local.embedded.binaries import postgres_installations, reachable_postgres
from ops.local.embedded.folder import Account
from ops.local.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that runs all the time."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("running"), durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def _used_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("used")
    with EmbeddedPostgres(folder, durable=False):
        return folder


@pytest.fixture
def resting(_used_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server that was used before and does not run; a story may do with it what does not break its data."""
    server = EmbeddedPostgres(_used_folder, durable=False)
    yield server
    assert not server.is_running()


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder with a space in its path, which an ordinary user owns and everyone may go through."""
    with contextlib.ExitStack() as undo:
        made = Path(tempfile.mkdtemp(prefix="back scroll "))
        undo.callback(shutil.rmtree, made)
        if os.geteuid() == 0:
            someone = pwd.getpwnam("nobody")
            os.chown(made, someone.pw_uid, someone.pw_gid)
        made.chmod(0o755)
        yield made


@pytest.fixture
def as_ordinary_user() -> Callable[[Callable[[], None]], None]:
    """Tells a story as an ordinary user: in a child process where we are root, else right here."""
    if os.geteuid() != 0:
        return lambda story: story()
    someone = pwd.getpwnam("nobody")
    installation = max(postgres_installations().items())[1]
    if reachable_postgres(installation, Account(someone.pw_uid, someone.pw_gid)) != installation:
        pytest.skip("the programs lie where no ordinary user can reach them")
    return lambda story: _in_child(story, someone)


def _in_child(story: Callable[[], None], user: pwd.struct_passwd) -> None:
    # A fork rather than a new interpreter, which such a user may not be able to reach.
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            story()
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it and the child must end
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
