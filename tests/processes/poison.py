"""Lets a worker die of a payload that holds a certain word, as of a fault in a library of C; for tests alone.

Only a worker that is told to import this module (`celery worker -I tests.processes.poison`) dies of it.
"""

import os
import signal
from typing import Any

from pipeline.ingest import accept

_accept = accept.accept


def _accept_or_die(*args: Any, **named: Any) -> accept.Accepted:
    if any("ricin" in message.content for message in args[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return _accept(*args, **named)


vars(accept).update(accept=_accept_or_die)
