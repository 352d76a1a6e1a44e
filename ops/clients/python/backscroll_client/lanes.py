"""When, and how many at once, what waits is tried: a lane for each chat, and rests that grow."""

from collections import deque
from dataclasses import dataclass, field

from backscroll_client.errors import BackscrollError, NoAnswer, Refused, Unavailable

MAX_BATCH = 500
"""Messages in one request; the API takes 1,000."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 30.0
MAX_TOLD_SECONDS = 600.0
"""For which a `Retry-After` is believed: a limit may be lifted meanwhile."""


@dataclass
class Rest:
    """A pause until something is tried again, longer each time, and as long as the API says."""

    reason: BackscrollError | None = None
    until: float = 0.0
    told_until: float = 0.0
    _pause: float = 0.0

    def begin(self, reason: BackscrollError, now: float) -> None:
        """Rest for this reason."""
        told = reason.retry_after if isinstance(reason, Unavailable) else None
        self.reason, self._pause = reason, min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), MAX_PAUSE_SECONDS)
        self.told_until = now + min(told or 0.0, MAX_TOLD_SECONDS)
        self.until = max(now + self._pause, self.told_until)


@dataclass
class Lane:
    """The numbers of what waits for one chat, in order; the first `size` are tried together."""

    numbers: deque[int] = field(default_factory=deque)
    rest: Rest = field(default_factory=Rest)
    size: int = MAX_BATCH
    # so many at the head hold one at least that kept the others from being taken, or were too many
    _suspects: int = 0
    # how many may not be; 0: half of the suspects, as one is at fault
    _fitting: int = 0

    def committed(self, count: int) -> None:
        """Go on behind the first `count`."""
        for _ in range(count):
            self.numbers.popleft()
        self.rest, self._suspects = Rest(), max(0, self._suspects - count)
        if self._suspects:
            self.size = self._fitting or max(1, self._suspects // 2)
        else:
            self.size = min(2 * self.size, MAX_BATCH)

    def set_aside(self) -> None:
        """Go on behind the first, which was the one at fault."""
        self.numbers.popleft()
        self._suspects, self.size = 0, MAX_BATCH

    def failed(self, count: int, error: BackscrollError, now: float) -> bool:
        """Note that the first `count` were not taken together; return whether fewer of them are to be tried now."""
        half = max(1, count // 2)
        if isinstance(error, Refused):
            self._suspects, self._fitting, self.size = count, 0, half
            return True
        if isinstance(error, Unavailable) and not isinstance(error, NoAnswer) and count > 1:
            # alone, the first shows whether it is the API, or else their number or one of the others
            self._suspects, self._fitting, self.size = count, half, 1
            return True
        # what took too long together may be done in time by halves
        self._suspects, self.size = 0, half if isinstance(error, NoAnswer) else MAX_BATCH
        self.rest.begin(error, now)
        return False
