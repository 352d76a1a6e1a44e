"""Choose the latest messages of a chat that are shown before the hits. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from pipeline.recall.choose.line import Line, Style
from pipeline.recall.choose.speech import head_of
from schemas.sessions import Message

# The newest message takes up to a fifth of the budget, any other a tenth; none is cut below `LEAST` tokens.
NEWEST_SHARES, OTHER_SHARES, LEAST = 5, 10, 24
# The latest messages are shown whatever the question, so that a bot knows what is going on: this many, and those sent
# within this time. Their worth is `RECENT_WORTH`, behind the best hits.
MIN_MESSAGES, ONGOING_WINDOW = 3, timedelta(minutes=10)
# Maximum number of irrelevant messages between two relevant ones.
MAX_GAP = 3
# Recent talk is relevant if it contains one of this many top hits.
TOP_HITS = 10
RECENT_WORTH = 0.8
"""Worth of a recent message that has nothing to do with the question."""


def lines(recent: Sequence[Message], worth: Sequence[float], style: Style) -> Iterator[Line]:
    """Write the latest messages as lines, newest first, each with its worth: the older, the less."""
    for number, (message, value) in enumerate(zip(recent, worth, strict=True)):
        answered = message.answered
        above = recent[number + 1] if number + 1 < len(recent) else None
        if answered and above and above.id == answered.id:
            # not quoted if it is the line above
            answered = None
        head = head_of(message, answered, style.zone, style.wording)

        def write(tokens: int, message: Message = message, head: str = head) -> str:
            return head + style.excerpt(head, message.content, tokens)

        yield Line(
            block="history",
            kind="message",
            id=str(message.id),
            at=message.sent_at,
            speaker=message.speaker,
            answers=str(answered.id) if answered else None,
            reason="said last",
            worth=value,
            place=message.stamp,
            write=write,
            shares=OTHER_SHARES if number else NEWEST_SHARES,
            least=LEAST,
            group=style.wording.day_heading(message.sent_at.astimezone(style.zone)),
            may_be_cut=True,
        )


def reach(recent: Sequence[Message], best: Collection[int], since: datetime) -> int:
    """Return how many of the latest messages are shown before the hits; `recent` is newest first.

    The last `MIN_MESSAGES`, those said `since` a time, and as far back as they are among the `best` that were found.
    """
    number = min(MIN_MESSAGES, len(recent))
    for place, message in enumerate(recent[number:], start=number):
        if place - number >= MAX_GAP:
            break
        if message.sent_at >= since or message.id in best:
            number = place + 1
    return number


def worths(recent: Sequence[Message], worth: Mapping[int, float], base: float, reach: int) -> list[float]:
    """Return the worth of each of the latest messages, newest first, such that the shown ones have no gap.

    As much as it is to the question, at least `base`, and no less than an older one, which it leads to.
    """
    values = [max(worth.get(m.id, 0.0), base) if number < reach else 0.0 for number, m in enumerate(recent)]
    best = 0.0
    for number in range(len(values) - 1, -1, -1):
        best = max(best, values[number])
        # what is newer comes first
        values[number] = best * (1 - number / 1e6)
    return values
