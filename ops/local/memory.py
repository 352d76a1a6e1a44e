"""The memory of a process and of all that it has started, by kind (Linux)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ops.local.embedded.process import children

PROC = Path("/proc")
_WORDS_END = re.compile("[ :]")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def by_kind(pid: int) -> dict[str, int]:
    """Measure bytes by kind of process: `worker embed`, `api`, `postgres` …, the largest first; empty without /proc.

    Shared memory is divided among the processes that share it (proportional set size). A process of no known kind
    counts as its parent's; one whose memory may not be read counts nothing.
    """
    sizes: dict[str, int] = defaultdict(int)
    parents = children()
    waiting = [(pid, "up")]
    while waiting:
        each, inherited = waiting.pop()
        kind = kind_of(_command(each)) or inherited
        sizes[kind] += _pss_bytes(each)
        waiting += [(child, kind) for child in parents[each]]
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
    if not command:
        return None
    # Postgres and Redis append what they are doing to their name
    program = _WORDS_END.split(Path(command[0]).name)[0]
    if program in {"postgres", "redis-server"}:
        return program.partition("-")[0]
    if "workers.api" in command:
        return "api"
    if "worker" in command and "-n" in command:
        return f"worker {command[list(command).index('-n') + 1].partition('@')[0]}"
    return next((name for name in ("beat", "flower") if name in command), None)


def _command(pid: int) -> list[str]:
    return [word for text in _read(PROC / str(pid) / "cmdline") for word in text.rstrip("\0").split("\0")]


def _pss_bytes(pid: int) -> int:
    return sum(
        1024 * int(match[1])
        for text in _read(PROC / str(pid) / "smaps_rollup")
        if (match := _PSS.search(text))
    )


def _read(path: Path) -> Iterator[str]:
    """Read a file; nothing if the process has ended, or is another user's."""
    try:
        yield path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return
