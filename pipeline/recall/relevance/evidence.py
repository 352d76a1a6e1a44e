"""Whether a chat knows what it is asked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.evidence import EvidenceLevel

By = Literal["both", "words", "meaning"]
"""What a question is judged by: its words and its meaning, unless there is only one of these."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How likely an answer is among what was found."""

    level: EvidenceLevel
    probability: float
    # of what lines are worth that remains: the less likely an answer, the fewer of them are shown
    share: float = 1.0
    # what decided: the parts of the logarithm of the odds, by signal
    parts: Mapping[str, float] = field(default_factory=dict)
    # why it is not called none where it is improbable; empty: nothing speaks against it
    unsure: str = ""
