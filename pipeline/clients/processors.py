"""Limit how many processors a model keeps busy, and let its threads sleep while they wait.

Call this before importing torch, whose OpenMP reads both from the environment; values set by the operator stay.
"""

import os
from math import ceil
from pathlib import Path

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def share() -> None:
    """Let the threads of models sleep while they wait, and start no more of them than there are processors.

    By default they spin: beside another busy process, each takes the processor time of the thread that it waits for.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OMP_NUM_THREADS", str(available()))


def available(groups: Path = _CONTROL_GROUPS, own_group: Path = _OWN_GROUP) -> int:
    """Count the processors that this process may run on, or its control group's quota if that is less, at least 1.

    OpenMP ignores control groups; only their version 2 is read here.
    """
    # missing except on Linux
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *map(ceil, _granted(groups, own_group))]))


def _granted(groups: Path, own_group: Path) -> list[float]:
    """Return the processor quotas of the process's control group and of each around it."""
    try:
        lines = own_group.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    around = [groups / path, *(groups / parent for parent in Path(path).parents)]
    quotas = []
    for group in dict.fromkeys(around):
        try:
            quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        except OSError:
            # the outermost group has no such file, and a container does not see groups around its own
            continue
        if quota != "max":
            quotas.append(int(quota) / int(period))
    return quotas
