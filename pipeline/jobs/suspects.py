"""Let a process try one row at a time whose worker died: it may kill the threads beside it as well.

Two that were under way together when their process died come back together. Tried beside each other again, an innocent
one would be given up with the other.
"""

from threading import Lock
from time import monotonic

_lock = Lock()
_until = 0.0


def begin(seconds: float) -> bool:
    """Tell whether one may be tried now; for so long no other may in this process, unless `end` is called before."""
    global _until
    with _lock:
        may = monotonic() >= _until
        if may:
            _until = monotonic() + seconds
        return may


def end() -> None:
    """Let the next one be tried."""
    global _until
    _until = 0.0
