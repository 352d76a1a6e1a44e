"""Find the event that a question is anchored to, and prefer the time that it gives relative to that event.

`mention` finds it ("before the trip", "since we moved"; in English, and in the languages whose calendars have
`events`), `pipeline.recall.refine` dates it, `timed` says what the question prefers.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from math import inf
from typing import Literal

from pipeline.text.calendars import Calendar, calendars_of
from pipeline.text.calendars.moments import moments
from pipeline.text.calendars.spans import MONTHS, midnight, written_day

Relation = Literal["before", "after", "since", "during", "between"]

_RELATIONS: dict[str, Relation] = {
    "prior to": "before",
    "before": "before",
    "after": "after",
    "following": "after",
    "since": "since",
    "during": "during",
    "while": "during",
    "of": "during",
}
_UNITS = {"day": 1, "night": 1, "morning": 1, "evening": 1, "weekend": 3, "week": 7, "month": 30, "year": 365}
# The days that "right after" allows.
_NEAR_DAYS = 3
_M = "|".join(MONTHS)
_LEAD = re.compile(
    rf"(?:\b(?:on |in )?the (?P<unit>{'|'.join(_UNITS)}) (?P<beside>before|after|of|following)"
    r"|(?:\b(?P<near>right|just|shortly|soon|immediately|straight) |\bever )?"
    r"\b(?P<alone>prior to|before|after|following|since|during|while)) (?=\w)",
    re.IGNORECASE,
)
# "Between" also joins people and prices: an event has an article, a possessive or a gerund.
_BETWEEN = re.compile(
    r"\bbetween (?P<first>(?:(?:the|my|our|his|her|their|your|its|an?)\b|\w+ing\b|\w+['’]s\b).{2,60}?) and "
    r"(?P<second>[^?!;]{3,60}?)(?=[?!;]|[.,](?!\w)|$)",
    re.IGNORECASE,
)
# An event's words end with the clause, before another question word, or before a purpose ("to …").
_END = re.compile(
    r"[?!;\"“”»]|[.,](?!\w)|$|\s(?:what|who|whom|whose|which|where|how|why|when|about|regarding|did|do|does)\b"
    r"|\sto (?!the\b|our\b|my\b|[A-Z\d])"
)
# Times of the clock or the calendar, which are read as dates or recur daily, and pronouns.
_NO_EVENT = re.compile(
    rf"(?:the )?(?:\d[\d:.]*+(?:st|nd|rd|th|h|am|pm)?(?: (?:of )?(?:{_M}))?\W*$|(?:{_M})\b(?: \d.*+)?\W*$"
    r"|\d{1,2}(?::\d\d)? ?(?:h|am|pm)\b|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:this|last|next|the past)\b"
    r"|(?:noon|midnight|dark|now|then|that|it|this|all|each|one|both|us|them|him|her|me|you|tomorrow|yesterday|today|when|what|which"
    r"|first|second|third|other|week|weekend|month|year|day|night|summer|winter|spring|autumn|fall)\W*$)",
    re.IGNORECASE,
)
# A noun with an article, a possessive, a capital or a number, or one that is the whole text.
_NOUN = re.compile(
    r"(?i:the|my|our|his|her|their|your|its|an?|that|these|those|all|both)\s(?=\w{3})"
    r"|\w{1,40}['’]s\s\w|(?!I\b)[A-Z]\w{2,40}|\w{2,40}ing\b|\w{3,40}\sv?\d"
    r"|(?!(?i:it|i|we|you|he|she|they|there|who|what|of|in|at|on|to|for|if|is|was|and|or|not|with|by|from)\b)"
    r"[a-z]\w{3,40}(?:\s(?:of|in|at|with|to)\s.{2,60})?$"
)
# A clause with a verb in the past tense.
_PAST = re.compile(
    r"\w{1,40}(?:['’]s)?(?:\s\w{1,40}){0,5}?\s(?:\w{1,40}ed|was|were|had|came|went|left|got|met|broke|began|became|bought"
    r"|sold|found|lost|made|took|gave|told|said|saw|started|ran|fell|flew|drove|built|sent|won|quit|hurt|ate|spoke|paid"
    r"|wrote|grew|held|knew|put|set|cut|read|felt|kept|slept|brought|caught|taught|thought|chose|rode|woke|wore|sang|swam|drank)\b",
    re.IGNORECASE,
)
_GERUND = re.compile(r"\w{2,40}ing\b", re.IGNORECASE)
# Before a word of time, it makes that word a noun, as in "the while loop" and "a before hook".
_NAMES_THE_WORD = re.compile(
    r"\b(?:the|an?|this|that|my|our|your|each|every|before and|no)\s\Z", re.IGNORECASE
)
_LEAD_CHARS = 16
# Verbs that take "after": "look after", "named after".
_VERB = re.compile(r"\b(?:look(?:s|ed|ing)?|named?|take[sn]?|took|ask(?:s|ed)?)\s*$", re.IGNORECASE)
# Asks how far apart two times are, not what was said then.
_LENGTH = re.compile(
    r"\bhow (?:long|many (?:days|weeks|months|years)|much time)(?: \w+){0,3} (?:before|after|since|between|prior)\b",
    re.IGNORECASE,
)
_BEFORE_A_MARK = re.compile(r"(?<!\s)\s++(?=[?!.,;])")
# A shorter text is not an event.
_SHORTEST = 4
# The first words that an event may follow are each tried, up to this number: the text after them is read to its end.
_LEADS_TRIED = 16


@dataclass(frozen=True, kw_only=True)
class Mention:
    """An event that a question names, and its relation to the time that is asked about."""

    relation: Relation
    # the description of the event; two for `between`
    events: tuple[str, ...]
    # within this many days of it, where the question says so
    days: int | None = None
    # the mention's words in the question, and the question without them
    text: str
    rest: str


def mention(text: str, language: str = "english") -> Mention | None:
    """Return the event that a question in a language is anchored to, or None.

    >>> anchor = mention("What did we buy the week before the trip?")
    >>> anchor.relation, anchor.events, anchor.days, anchor.rest
    ('before', ('the trip',), 7, 'What did we buy?')
    """
    for calendar in calendars_of(language):
        anchor = _english(text) if calendar.events is None else _in_calendar(text, calendar)
        if anchor is not None:
            return anchor
    return None


def _in_calendar(text: str, calendar: Calendar) -> Mention | None:
    """Return the first event that a question is anchored to, by the patterns of its language."""
    for match in islice(calendar.events.finditer(text) if calendar.events else (), _LEADS_TRIED):
        event = match["event"].strip()
        words = {word.casefold() for word in event.split()}
        is_time = not words.isdisjoint(
            calendar.units.keys() | calendar.weekdays.keys() | calendar.months.keys()
        )
        if is_time or not _is_event(event) or moments(match[0], (calendar,)):
            continue
        relation = next(
            name for name in ("before", "after", "since", "during") if match.groupdict().get(name)
        )
        return _mention(text, match.start(), match.end(), _RELATIONS[relation], (event,), None)
    return None


def _english(text: str) -> Mention | None:
    if _LENGTH.search(text):
        return None
    if match := _BETWEEN.search(text):
        events = (match["first"].strip(), match["second"].strip())
        if all(map(_is_event, events)):
            return _mention(text, match.start(), match.end(), "between", events, None)
    for match in islice(_LEAD.finditer(text), _LEADS_TRIED):
        stop = _END.search(text, match.end())
        end = stop.start() if stop else len(text)
        event = text[match.end() : end].strip()
        before = text[max(0, match.start() - _LEAD_CHARS) : match.start()]
        if not _is_event(event) or _VERB.search(before) or _NAMES_THE_WORD.search(before):
            continue
        lead = (match["beside"] or match["alone"]).lower()
        if not _names_event(event, lead):
            continue
        days = _UNITS[match["unit"].lower()] if match["unit"] else _NEAR_DAYS if match["near"] else None
        return _mention(text, match.start(), end, _RELATIONS[lead], (event,), days)
    return None


def _mention(
    text: str, start: int, end: int, relation: Relation, events: tuple[str, ...], days: int | None
) -> Mention:
    rest = f"{text[:start].rstrip()} {text[end:].lstrip()}" if end < len(text) else text[:start]
    return Mention(
        relation=relation,
        events=events,
        days=days,
        text=text[start:end].strip(),
        rest=_BEFORE_A_MARK.sub("", " ".join(rest.split())).lstrip("?!.,; "),
    )


def _names_event(event: str, lead: str) -> bool:
    """Tell whether an English text names an event: by a noun or a past action; after "while" only by an action."""
    if lead == "while":
        return bool(_PAST.match(event) or _GERUND.match(event))
    return bool(_NOUN.match(event) or _PAST.match(event))


def _is_event(event: str) -> bool:
    return len(event) >= _SHORTEST and not _NO_EVENT.match(event)


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
            f"{written_day(event.start.date())}{_until(event)}, said by {event.speaker}"
            + (
                ""
                if event.start.date() == event.said_at.date()
                else f" on {written_day(event.said_at.date())}"
            )
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
    return f" – {written_day(last)}" if last > event.start.date() else ""
