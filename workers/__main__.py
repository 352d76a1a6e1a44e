"""Celery's command line on this application, wherever it is started: `python -P -m workers -A workers.app worker …`.

Celery puts the working directory first on the path, where a project may have packages called `workers` or `schemas`; a
directory that is on the path already is not moved, so this adds it last.
"""

import sys
from pathlib import Path

from celery.__main__ import main

from schemas.errors import SettingsError
from schemas.load_settings import load_settings

if __name__ == "__main__":
    sys.path.append(str(Path.cwd()))
    try:
        # Celery would wrap the reason in its own words and a traceback
        load_settings()
    except SettingsError as error:
        raise SystemExit(f"Error: {error}") from None
    main()
