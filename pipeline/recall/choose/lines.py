"""Lines that a context may show: their fields, their style, and the words around what people said. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import cache
from typing import Any, NamedTuple

from pipeline.text import excerpt, fencing, truncate
from pipeline.text.excerpt import Wanted
from pipeline.text.languages import parts_of, read
from pipeline.text.tokens import Count
from schemas.context import BlockKind, ContextItem, ItemKind
from schemas.sessions import Message, RepliedTo


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The wording of one language: its `wording.toml`."""

    language: str
    # instructions to the model on how to read the rest
    guardrails: str
    # added to them where nothing answers the question
    unanswered: str
    # the headings of the blocks; of earlier talk there are three: as usual, where nothing surely answers the question,
    # and where no session fits
    documents: str
    memories: str
    rollups: str
    earlier: str
    loosely: str
    anywhere: str
    related: str
    history: str
    # the line before the question: {day} and {clock}
    today: str
    # {query}, and with {asker}
    question: str
    question_from: str
    # {speaker} and whom they answer, {answered}; with {said}, the beginning of the answered message
    answering: str
    quoting: str
    # {speaker} forwards the words of an unknown author, or of {author}
    forwarded: str
    forwarded_from: str
    # when a statement holds, with {day}: from a day in the past, from one to come, until one, on one only
    since: str
    starting: str
    until: str
    on: str
    # labels of statements that are about nobody by name, by scope
    scopes: dict[str, str]
    # what a digest says: since {when}, and how many messages; that there is none; that the reader never wrote, so that
    # it is of the last {days}; headings of what was asked of them, decided and said; which {names} joined and left
    digest: dict[str, str]
    # a day: {day}, {month}, {year}; with its {weekday}, as a heading; and with a time of day, {clock}
    day_form: str
    heading_form: str
    moment_form: str
    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    # the first of a month, if not written as a plain number
    first: str = "1"

    def day(self, at: date) -> str:
        """Format a day.

        >>> wording_of("german").day(date(2023, 5, 8)), wording_of("chinese").day(date(2023, 5, 8))
        ('8. Mai 2023', '2023年5月8日')
        """
        # `strftime` takes ten times as long and knows the process's language only
        day = self.first if at.day == 1 else at.day
        return self.day_form.format(day=day, month=self.months[at.month - 1], year=at.year)

    def day_heading(self, at: date) -> str:
        """Format a day with its weekday, as a heading of what was said on it.

        >>> wording_of("english").day_heading(date(2026, 11, 19))
        '19 November 2026, Thursday'
        """
        return self.heading_form.format(day=self.day(at), weekday=self.weekdays[at.weekday()])

    def at(self, at: datetime) -> str:
        """Format a day and a time of day."""
        return self.moment_form.format(day=self.day(at), clock=clock(at))

    def window(self, start: datetime, end: datetime, zone: tzinfo) -> str:
        """Format the time of a session in the chat's zone.

        >>> from datetime import UTC
        >>> start, end = datetime(2026, 3, 2, 18, 4, tzinfo=UTC), datetime(2026, 3, 2, 18, 40, tzinfo=UTC)
        >>> wording_of("english").window(start, end, UTC)
        '2 March 2026, 18:04–18:40'
        """
        start, end = start.astimezone(zone), end.astimezone(zone)
        if start.date() == end.date():
            return f"{self.at(start)}–{clock(end)}"
        return f"{self.at(start)} – {self.at(end)}"

    def now(self, at: datetime) -> str:
        """Format the line that tells the model what day and time it is."""
        return self.today.format(day=self.day_heading(at), clock=clock(at))


def clock(at: datetime) -> str:
    """Format a time of day."""
    return f"{at.hour:02}:{at.minute:02}"


@cache
def wording_of(language: str) -> Wording:
    """Return the wording of a chat's language: of the first that has one, English where none has.

    >>> [wording_of(language).language for language in ("german+english", "simple", "japanese")]
    ['german', 'english', 'japanese']
    """
    first = parts_of(language)[0]
    texts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in read(first, "wording").items()
    }
    return Wording(**texts, language=first)


class ChosenLine(NamedTuple):
    """One line that a context may show."""

    block: BlockKind
    # fields of the resulting `ContextItem`, as are the last four
    kind: ItemKind
    id: str
    reason: str
    # see `pipeline.recall.relevance`: lines take their tokens in this order, whatever their block
    worth: float
    # the position in the block, in order of time
    place: tuple[object, ...]
    # writes its text within a number of tokens
    write: Callable[[int], str]
    # it may take one in `shares` of the budget, and is never cut below `least` tokens
    shares: int = 1
    least: int = 0
    # adjacent lines of one group share a heading
    group: str = ""
    # the place of the message right before, if known; an ellipsis marks a gap
    follows: tuple[object, ...] | None = None
    # whether it may be cut to the remaining tokens, so that its block is not empty
    may_be_cut: bool = False
    at: datetime | None = None
    speaker: str | None = None
    answers: str | None = None
    score: float | None = None

    def item(self, text: str) -> ContextItem:
        """Return the line as a context item with this text."""
        return ContextItem(
            kind=self.kind,
            id=self.id,
            text=text,
            at=self.at,
            speaker=self.speaker,
            answers=self.answers,
            score=self.score,
            reason=self.reason,
        )


@dataclass(frozen=True, kw_only=True)
class Style:
    """How the lines of a context are written."""

    # of the chat
    zone: tzinfo
    wording: Wording
    # the words that excerpts of long texts are about
    wanted: Wanted
    count: Count

    def excerpt(self, head: str, text: str, tokens: int, *, least: int = 1, in_lines: bool = False) -> str:
        """Return the part of a text about the question that fits within `tokens` after a head, or within `least`."""
        room = max(tokens - self.count(head), least)
        return excerpt.displayed(text, self.wanted, room, self.count, in_lines=in_lines)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The heading and the limits of a block."""

    heading: str
    # maximum tokens of the block with its heading, and its maximum share of the budget
    cap: int | None = None
    share: float = 1.0
    # without gaps: the block ends at the first line that does not fit
    contiguous: bool = False
    # whether what it shows is marked as recalled for a model; what a person reads is not
    fenced: bool = True


QUOTED_CHARS = 60
"""The part of an answered message that is quoted: enough to recognize it."""
MAX_NAME_CHARS = 60
"""Users choose their names, of any length."""


def display_name(name: str) -> str:
    """Put a name on one line of bounded length."""
    return truncate.shortened(fencing.name(name), MAX_NAME_CHARS)


def said_by(
    speaker: str, answered: RepliedTo | None, wording: Wording, forwarded_from: str | None = None
) -> str:
    """Name who speaks, whose words they pass on (empty: nobody knows; None: nobody's), and whom they answer.

    >>> from pipeline.recall.choose.lines import wording_of
    >>> said_by("Ben", None, wording_of("english"))
    'Ben'
    >>> said_by("Ben", RepliedTo(12, "Ana", "does five suit?"), wording_of("english"))
    'Ben, to Ana (“does five suit?”)'
    >>> said_by("Ben", None, wording_of("english"), "Ana")
    'Ben, forwarded from Ana'
    """
    name = fencing.name(speaker)
    if forwarded_from is not None:
        author = display_name(forwarded_from)
        form = wording.forwarded_from if author else wording.forwarded
        name = form.format(speaker=name, author=author)
    if answered is None:
        return name
    quoted = truncate.shortened(truncate.one_line(answered.said), QUOTED_CHARS)
    form = wording.quoting if quoted else wording.answering
    return form.format(speaker=name, answered=fencing.name(answered.speaker), said=quoted)


def head_of(message: Message, answered: RepliedTo | None, zone: tzinfo, wording: Wording) -> str:
    """Return the time and the speaker of a line, up to what was said."""
    speaker = said_by(message.speaker, answered, wording, message.forwarded_from)
    return f"{clock(message.sent_at.astimezone(zone))} {speaker}: "
