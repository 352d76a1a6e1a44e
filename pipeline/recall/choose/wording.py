"""The words of a context around what people said: headings, dates, guardrails, in the language of the chat."""

from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import cache
from typing import Any

from pipeline.text.languages import parts_of, read


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
