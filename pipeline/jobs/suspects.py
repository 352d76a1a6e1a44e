"""Let a process retry one job at a time of those whose worker died: each may kill the threads beside it as well.

Jobs that were under way together when their process died become due together. Retried beside each other, an innocent
one would be given up with the one that kills.
"""

from threading import Lock
from time import monotonic

_lock = Lock()
_until = 0.0


def begin(seconds: float) -> bool:
    """Tell whether one may be retried now; then no other may in this process for `seconds`, or until `end`."""
    global _until
    with _lock:
        may = monotonic() >= _until
        if may:
            _until = monotonic() + seconds
        return may


def end() -> None:
    """Let the next one be retried."""
    global _until
    _until = 0.0
