"""Read off a question what it asks for: whom it names, when it means, and what is left to search for.

Names of participants and dates say where to look, not what was said: a message seldom repeats its sender's
name, so they are taken out of what is searched and come back as preferences. On LoCoMo nothing helps more:
the evidence among MiniLM's ten nearest messages goes from 46 to 68 %.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from pipeline.question.temporal_anchor import Timed
from pipeline.text import answer_types, exact_match
from pipeline.text.caches import pattern
from pipeline.text.calendar import MONTHS
from pipeline.text.exact_match import Verbatim

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_WHEN = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|month|day|date|time)\b|\bhow (?:long|often|recently)\b", re.IGNORECASE
)
_NUMBER = re.compile(
    r"\bhow (?:many|much|old|tall|big|long|far|often|heavy|aged|fast)\b|\bwhat time\b"
    r"|\b(?:price|costs?|number|phone|amount|weigh|password|code|percent)\b",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\bwhere\b|\b(?:what|which) (?:city|country|place|state|town)\b", re.IGNORECASE)
_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_NOW = re.compile(
    r"\b(?:now|currently|still|latest|in the end|from now on|these days|at the moment|finally|eventually|nowadays"
    r"|yet|no longer|any ?more|most recent(?:ly)?|last time)\b",
    re.IGNORECASE,
)
_M = "|".join(MONTHS)
_LEAD = (
    r"(?:\b(?:as mentioned )?(?:on|in|during|of|since|around|before|after|by|until|from|last|this|late|early|mid) "
    r"(?:the )?)"
)
_WEEK = r"(?:(?:in |during )?(?:the )?(?P<week>week) (?:of|from|starting|beginning) (?:on )?(?:monday )?(?:the )?)?"
_DATES = tuple(
    re.compile(source, re.IGNORECASE)
    for source in (
        rf"{_LEAD}?\b(?P<y>\d{{4}})-(?P<n>\d{{2}})-(?P<d>\d{{2}})\b",
        rf"{_WEEK}{_LEAD}?\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m>{_M})\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_WEEK}{_LEAD}?\b(?P<m>{_M}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_LEAD}?\b(?P<m>{_M}),? (?P<y>\d{{4}})\b",
        # a bare month needs the preposition: may, march and august are words too
        rf"{_LEAD}(?P<m>{_M})\b",
        rf"{_LEAD}(?P<y>(?:19|20)\d{{2}})\b",
    )
)
_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
}
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
# Times that count from the moment of asking; "last time" and "last one" are none.
_RELATIVE = re.compile(
    r"\b(?:(?:since|from|in|on|during|until) )?(?:(?P<day>today|tonight|this (?:morning|afternoon|evening)|yesterday"
    r"(?: (?:morning|afternoon|evening))?|last night)"
    rf"|(?:last|this past) (?P<weekday>{'|'.join(DAYS)})"
    r"|(?P<which>last|this|the past) (?P<unit>week|weekend|month|year)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}|a couple of) (?P<ago>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
# So many different times of one question count, the first ones named: each is compared with every candidate.
MOST_SPANS = 16
# Words that open a question more often than they are names.
_OPENERS = frozenset({"will", "may", "can", "might"})


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a question asks for, read off its words."""

    # as it was asked
    text: str
    # without the participants' names and dates: what is embedded and looked up
    content: str
    # the participants that it names; none when it names them all
    speakers: frozenset[str]
    # it asks for a time
    asks_when: bool
    # it asks for a number, or for what is mostly written in figures
    asks_number: bool = False
    # it asks for a place
    asks_where: bool = False
    # it asks for a person
    asks_who: bool = False
    # it asks how things stand in the end
    asks_now: bool = False
    # it asks what was decided
    asks_decision: bool = False
    # the times that it names, each from … until, the end not included, in order of time
    spans: tuple[tuple[datetime, datetime], ...]
    # the time that it counts from an event, once that was found in the talk
    event: Timed | None = None
    # what it puts in quotation marks
    phrases: tuple[Verbatim, ...] = ()
    # identifiers, addresses, paths and long numbers in it
    identifiers: tuple[Verbatim, ...] = ()

    @property
    def exact(self) -> tuple[Verbatim, ...]:
        """All of it that a message may hold as it stands."""
        return self.phrases + self.identifiers


def read(text: str, speakers: Sequence[str], earliest: datetime, now: datetime) -> Question:
    """What the question asks for.

    `speakers` are the participants' names; a date without a year means every year from `earliest` to `now`,
    in the time zone of `now`; "yesterday" and the like count from `now`. A name or date that is quoted, or part of
    an identifier, is neither.
    """
    spans: list[tuple[datetime, datetime]] = []
    parts = {part.casefold() for speaker in speakers for part in (speaker, *_WORD.findall(speaker))}
    exact, content, marked = exact_match.taken(text, parts)
    # their words stay in what is searched: "the camping trip last year" may be called that in the talk
    spans += [_relative(match.groupdict(), now) for match in _RELATIVE.finditer(content)]
    dated, content = _dates(content, earliest, now)
    spans = sorted(list(dict.fromkeys(spans + dated))[:MOST_SPANS])
    named = set()
    # of the hundreds who may have spoken few stand in the question, and only these are worth a pattern
    folded = content.casefold()
    for speaker in speakers:
        for part in filter(lambda part: part.casefold() in folded, _WORD.findall(speaker)):
            spellings = "|".join(map(re.escape, sorted(_spellings(part, text), key=len, reverse=True)))
            mention = pattern(rf"@?\b(?:{spellings})\b(?:['’]s\b)?")
            found = mention.search(content) if len(part) > 1 else None
            if found and not (found.start() == 0 and part.lower() in _OPENERS):
                named.add(speaker)
                content = mention.sub(" ", content)
    exact = (exact + exact_match.numbers(content))[: exact_match.MOST]
    content = exact_match.put_back(" ".join(content.split()), marked)
    return Question(
        text=text,
        content=content if _WORD.search(content) else text,
        speakers=frozenset(named) if len(named) < len(set(speakers)) else frozenset(),
        asks_when=bool(_WHEN.search(text)),
        asks_number=bool(_NUMBER.search(text)),
        asks_where=bool(_WHERE.search(text)),
        asks_who=bool(_WHO.search(text)),
        asks_now=bool(_NOW.search(text)),
        asks_decision=answer_types.asks_decision(text),
        spans=tuple(spans),
        phrases=tuple(piece for piece in exact if piece.kind == "phrase"),
        identifiers=tuple(piece for piece in exact if piece.kind != "phrase"),
    )


def dates(text: str, earliest: datetime, now: datetime) -> list[tuple[datetime, datetime]]:
    """The times that a text names by the calendar, as in `read`, each once."""
    return list(dict.fromkeys(_dates(text, earliest, now)[0]))


def _dates(text: str, earliest: datetime, now: datetime) -> tuple[list[tuple[datetime, datetime]], str]:
    """The times that a text names by the calendar, and the text without them."""
    spans: list[tuple[datetime, datetime]] = []

    def taken(match: re.Match[str]) -> str:
        spans.extend(_spans(match.groupdict(), earliest, now))
        return " "

    for date_pattern in _DATES:
        text = date_pattern.sub(taken, text)
    return spans, text


def _spellings(name: str, question: str) -> set[str]:
    """How the question would spell a name: capitals count only if it uses any, so that "will" is not Will."""
    return {name, name.capitalize()} | ({name.lower()} if question == question.lower() else set())


def _spans(
    found: Mapping[str, str | None], earliest: datetime, now: datetime
) -> list[tuple[datetime, datetime]]:
    """The days, months or years that a match means; a date that no calendar knows means nothing."""
    day = int(found["d"] or 0) if found.get("d") else None
    month = None
    if found.get("n"):
        month = int(found["n"] or 0)
    elif found.get("m"):
        month = MONTHS.index((found["m"] or "").lower()) + 1
    # the newest first: of a chat of many years the last ones are meant
    years = [int(found["y"] or 0)] if found.get("y") else range(now.year, earliest.year - 1, -1)
    spans = []
    for year in years:
        if not 1 < year < 9998 or (month is not None and not 1 <= month <= 12):
            continue
        if month is None:
            start, end = datetime(year, 1, 1, tzinfo=now.tzinfo), datetime(year + 1, 1, 1, tzinfo=now.tzinfo)
        elif day is None:
            start = datetime(year, month, 1, tzinfo=now.tzinfo)
            end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=now.tzinfo)
        else:
            start = datetime(year, month, 1, tzinfo=now.tzinfo) + timedelta(days=day - 1)
            end = start + timedelta(days=1)
            if day < 1 or start.month != month:
                continue
            if found.get("week"):
                start = _moved(start, -start.weekday())
                end = _moved(start, 7)
        spans.append((start, end))
    return spans


def _relative(found: Mapping[str, str | None], now: datetime) -> tuple[datetime, datetime]:
    """The days that a match means, whole days of the calendar of `now`.

    "Two weeks ago" is that day give or take half a week: people round, the more the longer ago.
    """
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if day := found.get("day"):
        start = _moved(today, -1 if day.lower().startswith(("yesterday", "last")) else 0)
        return start, _moved(start, 1)
    if weekday := found.get("weekday"):
        start = _moved(today, -((today.weekday() - DAYS.index(weekday.lower()) - 1) % 7 + 1))
        return start, _moved(start, 1)
    if unit := found.get("ago"):
        word = (found.get("count") or "").lower()
        count = int(word) if word.isdigit() else _COUNTS.get(word, 2)
        days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit.lower()]
        middle = _moved(today, -count * days)
        return _moved(middle, -(days // 2)), _moved(middle, days // 2 + 1)
    last = (found.get("which") or "").lower() != "this"
    match (found.get("unit") or "").lower():
        case "week":
            start = _moved(today, -today.weekday() - 7 * last)
            return start, _moved(start, 7)
        case "weekend":
            start = _moved(today, 5 - today.weekday() - 7 * last)
            return start, _moved(start, 2)
        case "month":
            end = today.replace(day=1)
            start = _moved(end, -1).replace(day=1) if last else end
            return (start, end) if last else (start, _moved(start, 31).replace(day=1))
        case _:
            year = max(today.year - last, 1)
            return today.replace(year=year, month=1, day=1), today.replace(
                year=min(year + 1, 9999), month=1, day=1
            )


def _moved(day: datetime, days: int) -> datetime:
    """That many days of the calendar later, stopping at the calendar's ends, whatever the clocks did meanwhile."""
    ordinal = min(max(day.toordinal() + days, 2), date.max.toordinal() - 1)
    moved = datetime.fromordinal(ordinal)
    return moved.replace(tzinfo=day.tzinfo)
