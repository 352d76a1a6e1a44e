"""How sure an answer is that it answers."""

from collections.abc import Mapping
from typing import Literal

EvidenceLevel = Literal["strong", "weak", "none"]
"""Whether what was found answers a question: probably, perhaps, or not."""
_MEANINGS: Mapping[EvidenceLevel, str] = {
    "strong": "what was found probably answers it",
    "weak": "only loosely related",
    "none": "nothing was found that answers it",
}


def in_words(level: EvidenceLevel | None, probability: float | None = None) -> str:
    """Say in one line how sure an answer is; empty if it was not judged.

    >>> in_words("weak", 0.381)
    'Evidence: weak (38 %): only loosely related'
    """
    if level is None:
        return ""
    share = "" if probability is None else f" ({100 * probability:.0f} %)"
    return f"Evidence: {level}{share}: {_MEANINGS[level]}"
