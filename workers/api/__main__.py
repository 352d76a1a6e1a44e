"""The HTTP API as processes that share a port: `python -m workers.api --processes 2`.

With several processes this one only listens and supervises, and its children serve. On Linux the kernel distributes
connections among them; elsewhere a free one takes the next. A killed child is replaced; one that exits by itself could
not start, and all exit with its code. TERM and INT end all, after their current requests; so does the end of this
process.
"""

import argparse
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess

import structlog
import uvicorn

from pipeline.recall.question import parse
from workers.api.app import create
from workers.api.protocol import MAX_CONNECTIONS, Protocol
from workers.logging import configure_logging

log = structlog.get_logger(__name__)

REQUEST_SECONDS = 10
"""Time to answer current requests after a signal to end."""
STOP_SECONDS = REQUEST_SECONDS + 10.0
SWITCH_SECONDS = 0.001
"""The interpreter's switch interval, 5 ms by default: a thread with a large request makes others wait so long, and a
small request waits some ten times."""
STEADY_SECONDS = 1.0
"""Least time between two starts of a child, so that one that dies at its start does not keep a core busy."""
_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

# The parent has imported everything and runs no thread: a fork is ready at once and shares its memory.
_context = multiprocessing.get_context("fork")


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(prog="python -m workers.api", description="The HTTP API of Backscroll.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8420)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    configure_logging()
    sys.setswitchinterval(SWITCH_SECONDS)
    # once for all children, which share the memory
    parse.read_languages()
    config = uvicorn.Config(
        partial(create, options.processes),
        factory=True,
        host=options.host,
        port=options.port,
        http=Protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=REQUEST_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
    )
    if options.processes == 1:
        uvicorn.Server(config).run()
    else:
        _watch(config, _listeners(config, options.processes))


def _listeners(config: uvicorn.Config, processes: int) -> list[socket.socket]:
    """Make a listening socket for each child; exit if the port is taken.

    With a single socket, connections that arrive together would go to one child, which accepts all that wait.
    """
    alone = config.bind_socket()
    if sys.platform != "linux":
        return [alone] * processes
    # now no other process has the port, although it could share it with us
    family, address = alone.family, alone.getsockname()
    alone.close()
    listeners = []
    for _ in range(processes):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listeners.append(listener)
    return listeners


def _watch(config: uvicorn.Config, listeners: Sequence[socket.socket]) -> None:
    """Keep a child serving at each socket; exit by the signal received, or with a child's exit code."""
    # blocked, as children would inherit handlers
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    children = {_start(config, listener): (listener, time.monotonic()) for listener in listeners}
    while True:
        got = signal.sigwait(_WATCHED)
        if got != signal.SIGCHLD:
            _stop(list(children))
            # exit by the signal, as uvicorn does
            signal.signal(got, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            signal.raise_signal(got)
        for child in [child for child in children if child.exitcode is not None]:
            listener, started = children.pop(child)
            code = child.exitcode or 0
            if code >= 0:
                _stop(list(children))
                raise SystemExit(code or 1)
            log.error("process_replaced", pid=child.pid, signal=signal.Signals(-code).name)
            time.sleep(max(0.0, started + STEADY_SECONDS - time.monotonic()))
            children[_start(config, listener)] = (listener, time.monotonic())


def _start(config: uvicorn.Config, listener: socket.socket) -> ForkProcess:
    child = _context.Process(target=_serve, args=(config, listener))
    child.start()
    return child


def _serve(config: uvicorn.Config, listener: socket.socket) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - a child has one
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(children: Sequence[ForkProcess]) -> None:
    """End children by TERM, and by KILL after `STOP_SECONDS`."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
        if child.exitcode is None:
            log.error("process_killed", pid=child.pid)
            child.kill()
            child.join()


if __name__ == "__main__":
    main()
