"""Ids for imported messages that came without one, the same in every export of one chat."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable
from hashlib import blake2b

PREFIX = "import:"
"""In front of every derived id, so that it is never taken for a platform's own."""


class ImportIds:
    """Names messages by hash(sender, local time, text, n-th occurrence).

    The n-th occurrence tells apart what somebody wrote twice within the clock's resolution (WhatsApp: a
    minute). It counts from the start of the export, so a longer export names what an earlier one held as
    before. An export that starts in the middle of such a run counts the later ones as the first: nothing is
    doubled, and the whole run is there as soon as one export holds it whole.

    The local time, not the instant, goes in: correcting `--tz` on a second run doubles nothing. It goes in as it
    was read, not as it was written, so that phones of two countries name a message alike; what it would be called if
    its date had been read in another order are its aliases. What the file has nothing to tell by counts as new: a
    message edited, a sender renamed, or a phone set to another time zone between two exports.
    """

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def name(self, sender: str, local_time: str, text: str) -> str:
        """The id of the next message with these three; `import:` and 16 hexadecimal digits."""
        return self.names(sender, local_time, text)[0]

    def names(
        self, sender: str, local_time: str, text: str, other_times: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """The id of the next message with these three, then what it would be with each of the other times."""
        digests = [_digest(sender, time, text) for time in (local_time, *other_times)]
        # what is equal in one reading of its time is equal in every one
        self._seen[digests[0]] += 1
        return tuple(_nth(digest, self._seen[digests[0]]) for digest in digests)


def _digest(sender: str, local_time: str, text: str) -> bytes:
    # JSON keeps the parts apart: ("a", "b c") and ("a b", "c") must not meet
    return blake2b(json.dumps([sender, local_time, text]).encode(), digest_size=16).digest()


def _nth(digest: bytes, n: int) -> str:
    return PREFIX + blake2b(n.to_bytes(8), key=digest, digest_size=8).hexdigest()


class Positions:
    """Orders messages that carry the same time: the n-th of its minute (or second) gets position n.

    Counted from the first message of that time in the export. What is stored already keeps its position
    when a longer export comes, which is right whenever both exports hold that minute from its start. When
    one of them starts in the middle of a minute and was imported first, the messages of that one minute can
    stand in another order than they were written; counting from the end instead would do the same to the
    last minute of every export that is repeated later, which is the usual case.
    """

    def __init__(self, remembered: int = 4096) -> None:
        # times come nearly in order; only so many of the latest are kept, whatever the file's size
        self._remembered = remembered
        self._next: dict[Hashable, int] = {}

    def next(self, time: Hashable) -> int:
        """The position of the next message with this time, from 0."""
        position = self._next.pop(time, 0)
        self._next[time] = position + 1
        if len(self._next) > self._remembered:
            del self._next[next(iter(self._next))]
        return position
