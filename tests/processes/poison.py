"""Lets a worker die of what holds a certain word, as of a fault in a library of C; for tests alone.

Only a worker that is told to import this module (`celery worker -I tests.processes.poison`) dies of it.
"""

import os
import signal
from typing import Any

from pipeline.ingest import accept, place

_accept, _put = accept.accept, place.update_sessions


def _accept_or_die(*args: Any, **named: Any) -> accept.Accepted:
    if any("ricin" in message.content for message in args[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return _accept(*args, **named)


def _put_or_die(*args: Any) -> None:
    if any(arrival.speaker == "Belladonna" for arrival in args[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    _put(*args)


vars(accept).update(accept=_accept_or_die)
vars(place).update(update_sessions=_put_or_die)
