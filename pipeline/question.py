"""Read off a question what it asks for: whom it names, when it means, and what is left to search for.

Names of participants and dates say where to look, not what was said: a message seldom repeats its sender's
name, so they are taken out of what is searched and come back as preferences. On LoCoMo nothing helps more:
the evidence among MiniLM's ten nearest messages goes from 46 to 68 %.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_WHEN = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|month|day|date|time)\b|\bhow (?:long|often|recently)\b", re.IGNORECASE
)
MONTHS = "january february march april may june july august september october november december".split()
_M = "|".join(MONTHS)
_LEAD = (
    r"(?:\b(?:as mentioned )?(?:on|in|during|of|since|around|before|after|by|until|from|last|this|late|early|mid) "
    r"(?:the )?)"
)
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_LEAD}?\b(?P<y>\d{{4}})-(?P<n>\d{{2}})-(?P<d>\d{{2}})\b",
        rf"{_LEAD}?\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m>{_M})\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_LEAD}?\b(?P<m>{_M}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_LEAD}?\b(?P<m>{_M}),? (?P<y>\d{{4}})\b",
        # a bare month needs the preposition: may, march and august are words too
        rf"{_LEAD}(?P<m>{_M})\b",
        rf"{_LEAD}(?P<y>(?:19|20)\d{{2}})\b",
    )
)
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
    # the times that it names, each from … until, the end not included
    spans: tuple[tuple[datetime, datetime], ...]


def read(text: str, speakers: Sequence[str], earliest: datetime, now: datetime) -> Question:
    """What the question asks for.

    `speakers` are the participants' names; a date without a year means every year from `earliest` to `now`,
    in the time zone of `now`.
    """
    spans: list[tuple[datetime, datetime]] = []
    content = text
    for pattern in _DATES:
        while match := pattern.search(content):
            spans += _spans(match.groupdict(), earliest, now)
            content = content[: match.start()] + " " + content[match.end() :]
    named = set()
    for speaker in speakers:
        for part in _WORD.findall(speaker):
            spellings = "|".join(map(re.escape, sorted(_spellings(part, text), key=len, reverse=True)))
            mention = re.compile(rf"@?\b(?:{spellings})\b(?:['’]s\b)?")
            found = mention.search(content) if len(part) > 1 else None
            if found and not (found.start() == 0 and part.lower() in _OPENERS):
                named.add(speaker)
                content = mention.sub(" ", content)
    content = " ".join(content.split())
    return Question(
        text=text,
        content=content if _WORD.search(content) else text,
        speakers=frozenset(named) if len(named) < len(set(speakers)) else frozenset(),
        asks_when=bool(_WHEN.search(text)),
        spans=tuple(spans),
    )


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
    years = [int(found["y"] or 0)] if found.get("y") else range(earliest.year, now.year + 1)
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
        spans.append((start, end))
    return spans
