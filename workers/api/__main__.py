"""The HTTP API as processes that share a port: `python -m workers.api --processes 2`.

One process serves by itself. With several, this one listens and watches, and its children serve. On Linux the kernel
shares connections out among them; elsewhere whichever is free takes the next one. A child that was killed is replaced;
one that ends by itself was refused its start, and all end with its exit code. TERM and INT end all, after the requests
that they are working on; so does the end of this process, in whatever way.
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

from workers.api.app import create
from workers.api.protocol import Protocol
from workers.logging import configure_logging

log = structlog.get_logger(__name__)

REQUEST_SECONDS = 10
"""What requests have to be answered once the end is asked for."""
STOP_SECONDS = REQUEST_SECONDS + 10.0
SWITCH_SECONDS = 0.001
"""How long a thread that works on a large request keeps the interpreter from others, of which a small request needs
it some ten times; 5 ms by default."""
STEADY_SECONDS = 1.0
"""A child that ends sooner is replaced when they are over: one that dies at its start shall not keep a core busy."""
_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

# The parent has imported everything and runs no thread: a fork is ready in no time and shares that memory.
_context = multiprocessing.get_context("fork")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="python -m workers.api", description="The HTTP API of Backscroll.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8420)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    configure_logging()
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        partial(create, given.processes),
        factory=True,
        host=given.host,
        port=given.port,
        http=Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=REQUEST_SECONDS,
    )
    if given.processes == 1:
        uvicorn.Server(config).run()
    else:
        _watch(config, _listeners(config, given.processes))


def _listeners(config: uvicorn.Config, processes: int) -> list[socket.socket]:
    """A listening socket for each child. Ends this process when somebody else has the port.

    A single socket would give connections that come together to one child: it takes as many as wait.
    """
    alone = config.bind_socket()
    if sys.platform != "linux":
        return [alone] * processes
    # now it is known that nobody else has the port, who could share it with us
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
    """Keep a child serving at each; ends this process as the signal that it got, or the child's exit code, says."""
    # without handlers of our own there is no moment at which a child has them, too
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    children = {_start(config, listener): (listener, time.monotonic()) for listener in listeners}
    while True:
        got = signal.sigwait(_WATCHED)
        if got != signal.SIGCHLD:
            _stop(list(children))
            # as uvicorn ends alone: by the signal
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
    """What a child does."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - a child has one
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(children: Sequence[ForkProcess]) -> None:
    """End them: TERM, and KILL to what is left after `STOP_SECONDS`."""
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
