"""Whether a chat knows what it is asked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.evidence import EvidenceLevel

By = Literal["both", "words", "meaning"]
"""What a question is judged by: its words and its meaning, unless there is only one of these."""
SAID = {
    "coverage": "one of the best messages holds {:.0%} of the question's words, by rarity",
    "coverage_together": "the best messages hold {:.0%} of the question's words, by rarity",
    "unknown": "{:.0%} of the question's words, by rarity, are nowhere in the chat",
    "session_words": "the best messages' sessions match the question's words by {:.2f}",
    "cosine": "the message nearest in meaning has a similarity of {:.2f}",
    "cosine_rise": "the message nearest in meaning is more similar than the chat's average by {:.2f}",
    "score": "the best message scores {:.2f}",
    "score_lead": "the best message scores more than the tenth by {:.2f}",
}
"""What each signal says, in plain words."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How likely an answer is among what was found."""

    level: EvidenceLevel
    probability: float
    # of what lines are worth that remains: the less likely an answer, the fewer of them are shown
    share: float = 1.0
    # what decided: the parts of the logarithm of the odds, by signal
    parts: Mapping[str, float] = field(default_factory=dict)
    # what was looked at, by signal
    signals: Mapping[str, float] = field(default_factory=dict)
    # how likely the best memory or passage that is shown answers, where that decides; 0: messages do
    told: float = 0.0
    # why it is not called none where it is improbable; empty: nothing speaks against it
    unsure: str = ""

    def reasons(self) -> list[str]:
        """Say what decided, most decisive first."""
        told = [f"a memory or passage answers it with a probability of {self.told:.0%}"] if self.told else []
        decisive = sorted(self.parts, key=lambda name: -abs(self.parts[name]))
        said = [SAID[name].format(self.signals[name]) for name in decisive if self.parts[name]]
        return [reason.replace("%", " %") for reason in told + said]
