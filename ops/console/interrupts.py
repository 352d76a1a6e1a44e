"""Defer Ctrl-C to a point where nothing is half done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C until the yielded function is called, or the end; a second one is raised at once.

    A statement that is broken off leaves a connection behind that can be used for nothing but an error.
    """
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    def let_through() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield let_through
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield let_through
    finally:
        signal.signal(signal.SIGINT, before)
    let_through()
