"""Prefer messages of a time that a question gives relative to an event, given the event's dates."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from pipeline.recall.ask.temporal_anchor import Mention
from pipeline.text.calendars.calendar import written
from pipeline.text.calendars.spans import midnight

# Outside the time asked for, the preference halves after this many days: slowly before an event, faster after it, in
# a few days around it, and at once on the wrong side of it.
FADES_BEFORE = 30.0
FADES_AFTER = 10.0
FADES_AROUND = 3.0
FADES_ACROSS = 1.0


@dataclass(frozen=True, kw_only=True)
class EventDate:
    """The date of an event, according to a message."""

    # the days that the message names, or the moment at which it was said
    start: datetime
    end: datetime
    # whether the message names days
    dated: bool
    said_at: datetime
    speaker: str


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A time relative to an event, as a preference."""

    mention: Mention
    dates: tuple[EventDate, ...]
    start: datetime
    end: datetime
    # days after which the preference is half as much, before `start` and after `end`
    fades_before: float
    fades_after: float

    def fit(self, at: datetime) -> float:
        """Return 1 inside the time, and less the farther outside."""
        if at < self.start:
            return _faded(self.start - at, self.fades_before)
        return _faded(at - self.end, self.fades_after) if at > self.end else 1.0

    @property
    def label(self) -> str:
        """Describe the time for people, as in `before the trip: 3 May 2026, said by Ana`."""
        parts = (
            f"{written(event.start.date())}{_until(event)}, said by {event.speaker}"
            + ("" if event.start.date() == event.said_at.date() else f" on {written(event.said_at.date())}")
            for event in self.dates
        )
        return f"{self.mention.text}: {'; '.join(parts)}"


def timed(mentioned: Mention, dates: tuple[EventDate, ...]) -> Timed:
    """Return the time that the question prefers, given its events' dates in the order of `mentioned.events`."""
    first = dates[0]
    before, after = FADES_ACROSS, FADES_ACROSS
    days = timedelta(days=mentioned.days or 0)
    match mentioned.relation:
        case "before":
            start, end = first.start - days, first.start
            before = FADES_AROUND if days else FADES_BEFORE
        case "after" if mentioned.days == 1:
            start = midnight(first.end if first.dated else first.start + days)
            end, after = start + days, FADES_AROUND
        case "after":
            start, end = first.start, first.end + days
            after = FADES_AROUND if days else FADES_AFTER
        case "since":
            start, end, after = first.start, first.end, inf
        case "between":
            start = min(event.start for event in dates)
            end = max(event.end for event in dates)
        case _:
            start = midnight(first.start)
            end = max(first.end, start + timedelta(days=mentioned.days or 1))
            before = after = FADES_AROUND
    return Timed(mention=mentioned, dates=dates, start=start, end=end, fades_before=before, fades_after=after)


def _faded(away: timedelta, half_life: float) -> float:
    return float(0.5 ** (away.total_seconds() / 86_400 / half_life))


def _until(event: EventDate) -> str:
    """Describe the last of several days."""
    last = (event.end - timedelta(microseconds=1)).date()
    return f" – {written(last)}" if last > event.start.date() else ""
