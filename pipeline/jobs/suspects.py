"""Retry jobs whose worker died one at a time in each process, as each may kill the threads beside it.

Jobs that ran together when their process died become due together. Retried side by side they would die together again,
and innocent jobs would be given up with the fatal one.
"""

from threading import Lock
from time import monotonic

_lock = Lock()
_until = 0.0


def acquire(seconds: float) -> bool:
    """Return whether an abandoned job may be claimed now; if so, block others for `seconds`, or until `release`."""
    global _until
    with _lock:
        is_free = monotonic() >= _until
        if is_free:
            _until = monotonic() + seconds
        return is_free


def release() -> None:
    """Let the next abandoned job be claimed."""
    global _until
    _until = 0.0
