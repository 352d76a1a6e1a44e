"""The memory of a process and of all that it has started, by kind (Linux)."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ops.local.embedded.process import children

PROC = Path("/proc")
_WORDS_END = re.compile("[ :]")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def by_kind(pid: int) -> dict[str, int]:
    """Measure proportional set sizes in bytes by kind of process, the largest first; empty without /proc."""
    sizes: dict[str, int] = defaultdict(int)
    parents = children()
    waiting = [(pid, "up")]
    while waiting:
        current, inherited = waiting.pop()
        kind = kind_of(_read(PROC / str(current) / "cmdline").rstrip("\0").split("\0")) or inherited
        if match := _PSS.search(_read(PROC / str(current) / "smaps_rollup")):
            sizes[kind] += 1024 * int(match[1])
        waiting += [(child, kind) for child in parents[current]]
    return dict(sorted(sizes.items(), key=lambda item: -item[1])) if any(sizes.values()) else {}


def kind_of(command: Sequence[str]) -> str | None:
    """Tell the kind of a command line; None if it has no kind of its own.

    >>> kind_of(["python", "-P", "-m", "workers", "-A", "workers.app", "worker", "-n", "embed@host"])
    'worker embed'
    >>> kind_of(["python", "-P", "-m", "workers.api", "--port", "8420"])
    'api'
    >>> kind_of(["/opt/bin/postgres", "-D", "data"])
    'postgres'
    """
    # Postgres and Redis append what they are doing to their name
    program = _WORDS_END.split(Path(command[0]).name)[0]
    if program in {"postgres", "redis-server", "valkey-server"}:
        return program.partition("-")[0]
    for module in ("workers.api", "workers.metrics"):
        if module in command:
            return module.partition(".")[2]
    if "worker" in command and "-n" in command:
        return f"worker {command[list(command).index('-n') + 1].partition('@')[0]}"
    return next((name for name in ("beat", "flower") if name in command), None)


def _read(path: Path) -> str:
    """Read a file; nothing if the process has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
