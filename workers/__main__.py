"""Celery's command line on this application, wherever it is started: `python -P -m workers -A workers.app worker …`.

Celery puts the working directory first on the path, where a project may have packages called `workers` or `schemas`; a
directory that is on the path already is not moved, so this adds it last.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from celery.__main__ import main

import workers.app
from schemas.load_settings import load_settings
from workers.logging import configure_logging

ASK_MILLISECONDS = 5000


def _make_flower_ask() -> None:
    """Have Flower ask workers about themselves that it hears of: it only asks those that are there at its start."""
    from flower.app import Flower
    from tornado.ioloop import PeriodicCallback

    def ask(flower: Any) -> None:
        if any(w.alive and name not in flower.workers for name, w in flower.events.state.workers.items()):
            flower.update_workers()

    def start(flower: Any, start: Callable[[Any], None] = Flower.start) -> None:
        PeriodicCallback(partial(ask, flower), ASK_MILLISECONDS).start()
        start(flower)

    Flower.start = start


if __name__ == "__main__":
    sys.path.append(str(Path.cwd()))
    if {"gevent", "eventlet"} & {word.removeprefix("--pool=").removeprefix("-P") for word in sys.argv}:
        # Celery would import it first, and fail with a traceback
        sys.stderr.write("Error: a worker runs in the pool prefork or threads: `backscroll worker --help`\n")
        raise SystemExit(2)
    # made here, so that what is wrong with the settings is said before anything else, and the first line is JSON
    _ = workers.app.app
    configure_logging(load_settings().log_level)
    if "flower" in sys.argv:
        _make_flower_ask()
    main()
