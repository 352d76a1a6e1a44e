"""Add up the memory of a process and of all that it has started, by what they are (Linux)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")
_WORDS_END = re.compile("[ :]")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def by_kind(pid: int) -> dict[str, int]:
    """Bytes by kind of process: `worker embed`, `web`, `postgres` and so on, the largest first; empty without /proc.

    What processes share is counted once, in equal parts (proportional set size). A process that is no kind of its own
    belongs to the one that started it; one whose memory may not be read counts nothing.
    """
    sizes: dict[str, int] = defaultdict(int)
    children = _children()
    waiting = [(pid, "up")]
    while waiting:
        each, inherited = waiting.pop()
        kind = kind_of(_command(each)) or inherited
        sizes[kind] += _pss_bytes(each)
        waiting += [(child, kind) for child in children[each]]
    return dict(sorted(sizes.items(), key=lambda item: -item[1])) if any(sizes.values()) else {}


def kind_of(command: Sequence[str]) -> str | None:
    """What a command line is; None: nothing of its own.

    >>> kind_of(["python", "-P", "-m", "workers", "-A", "workers.app", "worker", "-n", "embed@host"])
    'worker embed'
    >>> kind_of(["python", "-P", "-m", "workers.api", "--port", "8420"])
    'web'
    >>> kind_of(["/opt/bin/postgres", "-D", "data"])
    'postgres'
    """
    if not command:
        return None
    # both write what they are doing behind their name
    program = _WORDS_END.split(Path(command[0]).name)[0]
    if program in {"postgres", "redis-server"}:
        return program.partition("-")[0]
    if "workers.api" in command:
        return "web"
    if "worker" in command and "-n" in command:
        return f"worker {command[list(command).index('-n') + 1].partition('@')[0]}"
    return next((name for name in ("beat", "flower") if name in command), None)


def _children() -> dict[int, list[int]]:
    """The processes that each has started."""
    found: dict[int, list[int]] = defaultdict(list)
    for path in PROC.glob("[0-9]*/stat"):
        # "pid (name) state parent …", and the name may hold anything
        for text in _read(path):
            found[int(text.rpartition(")")[2].split()[1])].append(int(path.parent.name))
    return found


def _command(pid: int) -> list[str]:
    return [word for text in _read(PROC / str(pid) / "cmdline") for word in text.rstrip("\0").split("\0")]


def _pss_bytes(pid: int) -> int:
    return sum(
        1024 * int(match[1])
        for text in _read(PROC / str(pid) / "smaps_rollup")
        if (match := _PSS.search(text))
    )


def _read(path: Path) -> Iterator[str]:
    """The text of a file; nothing where the process has ended meanwhile, or is somebody else's."""
    try:
        yield path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return
