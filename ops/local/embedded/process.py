"""Start server processes that end with us, and end them together with their children."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ops.local.embedded.folder import Account, rights

# Whether a server surely ends with the process that started it.
ENDS_WITH_STARTER = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if ENDS_WITH_STARTER else None
# For the kernel the parent is the thread that started a process, so that thread must not end before us.
_lasting_thread = ThreadPoolExecutor(1, thread_name_prefix="backscroll-embedded")


def spawn(
    command: Sequence[str | Path],
    *,
    directory: Path,
    account: Account | None,
    config: bytes,
    log: int,
    keep_open: int,
    death_signal: signal.Signals,
) -> subprocess.Popen[bytes]:
    """Start a server in its directory as the account, with its configuration on standard input.

    It writes to the descriptor `log` and inherits `keep_open`. When the calling process dies, the server gets the
    `death_signal` (Linux). Raises `OSError` or `subprocess.SubprocessError`.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=directory,
            env={"PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[keep_open],
            umask=0o077,
            # Ctrl-C in the terminal must not reach the servers, which are stopped last
            start_new_session=True,
            preexec_fn=die_with_parent(death_signal),
            **rights(account),
        )

    lasting = threading.current_thread() is threading.main_thread()
    child = start() if lasting else _lasting_thread.submit(start).result()
    if child.stdin is not None:
        # if it ended at once, its waiter notices
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(config)
    return child


def end(child: subprocess.Popen[bytes], requests: Sequence[signal.Signals], patience: float) -> None:
    """End the process by these signals, with `patience` seconds after each; then kill it and its children."""
    for request in requests:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.send_signal(request)
            child.wait(patience)
            return
    kill_family(child.pid)
    child.wait()


def kill_family(pid: int) -> None:
    """Kill the process and its children; it is stopped first, so that it starts no more of them."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        for member in (*children()[pid], pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def exists(pid: int) -> bool:
    """Return whether there is a process of this number, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def children() -> dict[int, list[int]]:
    """List the children of each process, if the system has /proc."""
    by_parent: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        # a process may end while we look
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # "pid (name) state parent …", where the name may hold any character
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            by_parent[parent].append(int(path.parent.name))
    return by_parent


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped the process, as SIGSTOP does, if the system has /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def die_with_parent(request: signal.Signals) -> Callable[[], None]:
    """Make the `preexec_fn` by which a process gets the signal when its parent dies."""
    parent = os.getpid()

    def before_exec() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(request))
            if os.getppid() != parent:  # the parent died before the request took effect
                os._exit(1)

    return before_exec
