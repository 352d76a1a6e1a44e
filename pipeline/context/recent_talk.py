"""The latest messages of a chat: how many of them come before what is found, and how they are shown. Pure."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo

from pipeline.context.packing import Entry, Section, entry_of
from pipeline.context.page import Page
from pipeline.context.wording import Wording, clock
from pipeline.question.followup import JUST_NOW
from pipeline.text import excerpt, fencing, truncate
from pipeline.text.excerpt import NOTHING, Wanted
from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.tokens import Count, estimate_line
from schemas.context import ContextItem
from schemas.sessions import Message, RepliedTo

# The latest messages are shown whatever the question, so that a bot knows what is going on: so many, and what was said
# within this time.
KEPT = 3
GOING_ON = timedelta(minutes=10)
# Between messages that have to do with the question, so many that have not.
MAX_GAP = 3
# The share of the question's words that a message has that has to do with it: one common word says nothing.
RELATED_SHARE = 1 / 3
QUOTED_CHARS = 60
"""The part of an answered message that is quoted: enough to recognize it."""
# The share of the block that one message may take: the newest, any other. No message is cut to less than a few words.
NEWEST_SHARE, OTHER_SHARE = 2, 4
MIN_MESSAGE_TOKENS = 24
# With fewer tokens left there is no room for more of the recent talk.
LEAST_SPARE = 64
# A guess at what the time and the speaker of a line take.
SPEAKER_TOKENS = 8
# What a question's words are looked for in, of a longer message.
_READ_CHARS = 2_000


def claimed(
    recent: Sequence[Message], asked: Wanted, best: Collection[int], *, leans: bool, now: datetime
) -> int:
    """Return how many of the latest messages come before what is found; `recent` is newest first.

    These are the last `KEPT` ones, those of the talk that is going on, and as far back as messages have words of what
    is `asked`, or are among the `best` that were found. A question that `leans` on earlier ones goes on with the talk
    of the last half an hour.
    """
    least = max(len(asked.terms) * RELATED_SHARE, 1)
    since = now - (JUST_NOW if leans else GOING_ON)

    def is_related(message: Message) -> bool:
        if message.sent_at >= since or message.id in best:
            return True
        return len(asked.held(message.content[:_READ_CHARS])) >= least

    reach = min(KEPT, len(recent))
    for number, message in enumerate(recent[reach:], start=reach):
        if number - reach >= MAX_GAP:
            break
        if is_related(message):
            reach = number + 1
    return reach


def fitting(recent: Sequence[Message], first: int, page: Page, cap: int) -> tuple[int, frozenset[int]]:
    """Return how many of the latest messages there is room for when all else is in, and which of them whole.

    Whole are those of the `first` that the page shows cut, if there is room, and all after them.
    """
    room, there = page.room, {item.id: item.text for item in page.items("history")}
    cap -= page.blocks["history"].tokens if there else 0
    found = {item.id: item.text for item in page.items("exchanges")}
    number, whole = first, set[int]()
    if room < LEAST_SPARE:
        return number, frozenset()
    for place, message in enumerate(recent):
        key, is_more = str(message.id), place >= first
        if not is_more and (key not in there or is_whole(there[key], message)):
            continue
        tokens = page.count(truncate.displayed(message.content)) + SPEAKER_TOKENS
        # what is shown already takes no more tokens there
        stub = page.count(there.get(key, ""))
        spent = max(tokens - stub - page.count(found.get(key, "")), 0)
        if spent <= room and tokens - stub <= cap:
            room, cap, number = room - spent, cap - tokens + stub, max(number, place + 1)
            whole.add(message.id)
        elif is_more:
            break
    return number, frozenset(whole)


def is_whole(line: str, message: Message) -> bool:
    """Tell whether a line shows all of a message."""
    return truncate.displayed(message.content) in line


def history(
    recent: Sequence[Message],
    cap: int,
    zone: tzinfo,
    wording: Wording,
    *,
    asked: Wanted = NOTHING,
    whole: Collection[int] = (),
    count: Count = estimate_line,
) -> Section:
    """Offer the newest messages that fit, without a gap; of a long one the part that is about what is `asked`.

    `recent` is newest first; `whole` are messages that are not cut.
    """
    around = [
        wording.history,
        OPEN,
        CLOSE,
        *(wording.day_heading(m.sent_at.astimezone(zone)) for m in recent[:1]),
    ]
    room = cap - sum(map(count, around))
    entries = _entries(recent, room, zone, wording, asked, whole, count)
    return Section(kind="history", heading=wording.history, entries=entries, cap=cap, contiguous=True)


def _entries(
    recent: Sequence[Message],
    room: int,
    zone: tzinfo,
    wording: Wording,
    asked: Wanted,
    whole: Collection[int],
    count: Count,
) -> Iterator[Entry]:
    for number, message in enumerate(recent):
        answered = _quoted(recent, number)
        head = head_of(message, answered, zone, wording)
        # the last one may take all that a small block has
        least = MIN_MESSAGE_TOKENS if number else room
        share = max(room // (OTHER_SHARE if number else NEWEST_SHARE), min(least, MIN_MESSAGE_TOKENS * 4))
        share = room if message.id in whole else share
        text = head + excerpt.shown(message.content, asked, max(share - count(head), 1), count)
        item = ContextItem(
            kind="message",
            id=str(message.id),
            text=text,
            at=message.sent_at,
            speaker=message.speaker,
            answers=str(answered.id) if answered else None,
            reason="said last",
        )
        heading = wording.day_heading(message.sent_at.astimezone(zone))
        yield entry_of(item, message.stamp)._replace(group=heading)


def head_of(message: Message, answered: RepliedTo | None, zone: tzinfo, wording: Wording) -> str:
    """Return the time and the speaker of a line, up to what was said."""
    return f"{clock(message.sent_at.astimezone(zone))} {said_by(message.speaker, answered, wording)}: "


def _quoted(recent: Sequence[Message], number: int) -> RepliedTo | None:
    """Return the message that a line of recent talk, newest first, quotes as answered; None if it is the line above."""
    answered = recent[number].answered
    above = recent[number + 1] if number + 1 < len(recent) else None
    return None if answered and above and above.id == answered.id else answered


def said_by(speaker: str, answered: RepliedTo | None, wording: Wording) -> str:
    """Name who speaks, and whom they answer.

    >>> from pipeline.context.wording import wording_of
    >>> said_by("Ben", None, wording_of("english"))
    'Ben'
    >>> said_by("Ben", RepliedTo(12, "Ana", "does five suit?"), wording_of("english"))
    'Ben, to Ana (“does five suit?”)'
    """
    name = fencing.name(speaker)
    if answered is None:
        return name
    quoted = truncate.shortened(truncate.one_line(answered.said), QUOTED_CHARS)
    form = wording.quoting if quoted else wording.answering
    return form.format(speaker=name, answered=fencing.name(answered.speaker), said=quoted)
