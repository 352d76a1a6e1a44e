"""Celery's command line on this application, wherever it is started: `python -P -m workers -A workers.app worker …`.

Celery puts the working directory first when it looks for an application, where a project may have packages called
`workers` or `schemas` of its own; a directory already on the path stays where it is, so it goes last.
"""

import sys
from pathlib import Path

from celery.__main__ import main

from schemas.errors import SettingsError
from schemas.load_settings import load_settings

if __name__ == "__main__":
    sys.path.append(str(Path.cwd()))
    try:
        # Celery would put its own words and a traceback around what is wrong
        load_settings()
    except SettingsError as error:
        raise SystemExit(f"Error: {error}") from None
    main()
