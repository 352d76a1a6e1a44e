"""Environments of their own for libraries whose bounds exclude what the others are tested with."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def python_with(*requirements: str) -> Path:
    """The Python of an environment with exactly this, made once and kept in `.venv`."""
    folder = CHECKOUT / ".venv" / "apart" / requirements[0]
    python, made = folder / "bin/python", folder / "made"
    if not made.exists() or made.read_text().split() != [*requirements]:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        subprocess.run(install, check=True)
        made.write_text("\n".join(requirements))
    return python
