"""What Backscroll promises of its speed and size, and whether a run of the benchmark kept it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One promise beside what was measured."""

    name: str
    # what is counted
    counted: str
    measured: float
    # the limit; `measured` may not be above it, or below it where more is better
    limit: float
    unit: str
    more_is_better: bool = False

    @property
    def kept(self) -> bool:
        """Whether the measure is within the limit."""
        return self.measured >= self.limit if self.more_is_better else self.measured <= self.limit


def context_limit_ms(messages: int, chats: int) -> float:
    """How long 95 of 100 contexts may take at most: 60 ms where a chat has up to 2,000 messages, else 150 ms."""
    return 60.0 if messages <= 2000 * chats else 150.0
