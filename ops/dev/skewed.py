"""Celery with a clock that is wrong: `python -m ops.dev.skewed worker …`.

Every way in which Python tells the time of day is shifted before anything else is imported. `time.monotonic` is left
as it is, as on a machine whose clock is wrong.
"""

import ctypes
import datetime
import gc
import os
import runpy
import time
from typing import Any

# The variable that holds the seconds, ahead or (negative) behind.
SHIFT = "CHAOS_CLOCK_SHIFT_SECONDS"


def shift(seconds: float) -> None:
    """Set this process's clock ahead, in seconds. Raises `RuntimeError` where this Python does not allow it."""
    true_time, true_ns = time.time, time.time_ns
    true_now, true_utcnow = datetime.datetime.now, datetime.datetime.utcnow
    ahead = datetime.timedelta(seconds=seconds)

    def now(_cls: Any, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return true_now(tz) + ahead

    def utcnow(_cls: Any) -> datetime.datetime:
        return true_utcnow() + ahead

    vars(time).update(time=lambda: true_time() + seconds, time_ns=lambda: true_ns() + int(seconds * 1e9))
    # `datetime` is a type of C, whose methods are replaced in its very dictionary, as others may hold the old type
    held = gc.get_referents(datetime.datetime.__dict__)[0]
    held.update(now=classmethod(now), utcnow=classmethod(utcnow))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
    if abs(datetime.datetime.now() - true_now() - ahead) > datetime.timedelta(seconds=1):  # noqa: DTZ005
        raise RuntimeError("this Python's clock cannot be shifted")


# at import: children that are spawned import this module again, and run nothing
if SHIFT in os.environ:
    shift(float(os.environ[SHIFT]))

if __name__ == "__main__":
    runpy.run_module("workers", run_name="__main__")
