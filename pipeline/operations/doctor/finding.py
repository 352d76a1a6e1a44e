"""A finding: what is wrong, why it matters and what to do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["warning", "error"]
# how many of many names are told
NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    check: str
    severity: Severity
    what: str
    why: str
    remedy: str
    # whether `--fix` mends it
    fixable: bool = False


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None


def some(names: Sequence[str]) -> str:
    """List the first few names."""
    return ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
