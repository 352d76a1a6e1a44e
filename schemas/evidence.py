"""How sure an answer is that it answers."""

from typing import Literal

EvidenceLevel = Literal["strong", "weak", "none"]
"""Whether what was found answers a question: probably, perhaps, or not."""
