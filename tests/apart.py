"""Packages whose bounds exclude what the others are tested with, and which work with it all the same."""

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def packages(*requirements: str) -> Path:
    """A folder for PYTHONPATH with exactly these and nothing that they need, made once and kept in `.venv`."""
    folder = CHECKOUT / ".venv" / "apart" / requirements[0]
    made = folder / "made"
    if not made.exists() or made.read_text().split() != [*requirements]:
        shutil.rmtree(folder, ignore_errors=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", folder]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, *requirements], check=True, timeout=600
        )
        made.write_text("\n".join(requirements))
    return folder
