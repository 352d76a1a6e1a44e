"""Let a process retry one claim at a time of jobs whose worker died: each may kill the threads beside it as well.

Jobs that were under way together when their process died become due together. Claims of them that are retried beside
each other would bring each other down, and an innocent job be given up with the one that kills.
"""

from threading import Lock
from time import monotonic

_lock = Lock()
_until = 0.0


def begin(seconds: float) -> bool:
    """Tell whether such a claim may be made now; then no other may in this process for `seconds`, or until `end`."""
    global _until
    with _lock:
        may = monotonic() >= _until
        if may:
            _until = monotonic() + seconds
        return may


def end() -> None:
    """Let the next such claim be made."""
    global _until
    _until = 0.0
