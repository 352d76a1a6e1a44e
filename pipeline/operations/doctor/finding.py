"""A finding: what is not as it should be, why it matters and what to do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["warning", "error"]
# how many of many names are told
NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    check: str
    severity: Severity
    what: str
    why: str
    remedy: str
    # whether `--fix` mends it
    fixable: bool = False


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity; None: all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None


def some(names: Sequence[str]) -> str:
    """The first few names."""
    return ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
