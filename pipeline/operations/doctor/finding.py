"""One finding of the doctor: what is wrong, why it matters and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

Severity = Literal["warning", "error"]

GUIDE = "ops/guide/operating.md"
DEFAULT_PAGE = f"{GUIDE}#the-doctor"
# Where to read on, by check: a page of the HTTP API's inspector, or of the guide.
PAGES = {
    "late": "/inspect/jobs",
    "dead": "/inspect/jobs",
    "left-out": "/inspect/jobs",
    "missing": "/inspect/backfills",
    "sessions": "/inspect/chats",
    "counters": "/inspect/chats",
    "languages": "/inspect/spaces",
    "calibration": "/inspect/spaces",
    "retired": "/inspect/spaces",
    "space": "/inspect/spaces",
    "provider": "/inspect/cost",
    "names": "/inspect/people",
    "summaries": f"{GUIDE}#summaries-by-a-language-model",
    "model": f"{GUIDE}#embedding-models",
    "migration": f"{GUIDE}#upgrades",
    "worker": f"{GUIDE}#queues-and-scaling",
    "unread": f"{GUIDE}#dead-letters",
    "accept": f"{GUIDE}#queues-and-scaling",
    "clock": f"{GUIDE}#queues-and-scaling",
    "held-up": f"{GUIDE}#when-something-is-down",
    "read-only": f"{GUIDE}#when-something-is-down",
} | dict.fromkeys(
    ("connection", "role", "pooler", "version", "isolation", "extension", "redis"), f"{GUIDE}#deploying"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    severity: Severity
    check: str
    what: str
    why: str
    remedy: str
    # whether `--fix` repairs it
    fixable: bool = False
    # where to read on
    page: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "page", PAGES.get(self.check, DEFAULT_PAGE))


error = partial(Finding, "error")
warning = partial(Finding, "warning")


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None
