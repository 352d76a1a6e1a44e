"""One finding of the doctor: what is wrong, why it matters and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

Severity = Literal["warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    severity: Severity
    check: str
    what: str
    why: str
    remedy: str
    # whether `--fix` mends it
    fixable: bool = False


error = partial(Finding, "error")
warning = partial(Finding, "warning")


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None
