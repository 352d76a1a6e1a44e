"""What a question asks for, and what a message offers: a time, number, place, person or decision; English patterns."""

import re
from collections.abc import Callable
from itertools import repeat
from typing import Literal

from pipeline.text.caches import cached
from pipeline.text.calendar import MONTHS
from pipeline.text.phrases import PHRASES

AnswerType = Literal["when", "number", "where", "who", "now", "decision"]
"""A time; a number, or what is mostly written in figures; a place; a person; the present or final state; a decision."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SELF = "i me my mine myself we us our ours i'm i've i'd i'll we're we've we'd we'll im ive".split()
_OTHER = "you your yours yourself you're you've you'd you'll u ur youre".split()
_PERSON = dict.fromkeys(_SELF, 1) | dict.fromkeys(_OTHER, -1)
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|since|recently|soon|weekend|weeks?|months?|years?|days?"
    r"|this (?:morning|week|month|year|past)|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    rf"|{'|'.join(MONTHS)}|\d{{4}})\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred|thousand"
    r"|once|twice|dozen|couple|half)\b",
    re.IGNORECASE,
)
# A name is one by its capital, a common place by its word.
_PLACE = re.compile(
    r"\b(?:in|at|to|from|near|around|outside|inside|across|by) (?:(?:the|a|an|my|our|this|that|his|her) )?(?:[a-z]+ )?"
    r"(?:[A-Z]\w+|park|beach|home|house|store|shop|shelter|gym|church|school|office|city|town|country|mountains?"
    r"|lake|studio|street|museum|caf[eé]|restaurant|hotel|airport|station|hospital|library|cent(?:re|er)|forest"
    r"|garden|market|campus|building|room|kitchen|place|village|woods)\b"
)
_PERSON_WORD = re.compile(
    r"\b(?:friends?|mom|mum|dad|mother|father|brother|sister|aunt|uncle|grandma|grandpa|cousin|wife|husband|partner"
    r"|boss|colleagues?|coworkers?|neighbou?rs?|team|family|kids?|son|daughter|girlfriend|boyfriend|teacher"
    r"|doctor)\b",
    re.IGNORECASE,
)
_PICTURE = "[picture: "
_SENTENCE = re.compile(r"[^.!?…]+[.!?…]*")
_LEAD = r"^(?:(?:so|and|but|ok|okay|hey|hi|well|oh|btw|also|then)[,!. ]+)*"
_VERB = (
    r"(?:is|are|was|were|am|do|does|did|can|could|shall|should|would|will|has|have|had|isn't|aren't|wasn't|don't"
    r"|doesn't|didn't|can't|couldn't|shouldn't|wouldn't|won't|hasn't|haven't)"
)
_SOMEBODY = (
    r"(?:i|you|u|we|they|he|she|it|there|this|that|the|your|our|my|his|her|their|any|some)(?:one|body|thing)?"
)
# Messengers' questions often lack their mark; these words begin them.
_ASKING = re.compile(
    rf"{_LEAD}(?:(?:who|whom|whose|what|when|where|why|how|which)(?:['’]?s)?|any|{_VERB} {_SOMEBODY})\b",
    re.IGNORECASE,
)


@cached
def asks(text: str) -> float:
    """Return the share of the text that asks, from 0 to 1, by question marks and, without any mark, by beginnings.

    >>> asks("how do we get to Svaneti"), asks("By plane."), asks("Fine. And you?")
    (1.0, 0.0, 0.6153846153846154)
    """
    if text.endswith((".", "!")) and "?" not in text and "…" not in text:
        return 0.0  # no sentence of it asks, and most need not be looked at
    asked = whole = 0
    for found in _SENTENCE.findall(_without_picture(text) if _PICTURE in text else text):
        sentence = found.strip()
        whole += len(sentence)
        if sentence.endswith("?") or (not sentence.endswith((".", "!")) and _ASKING.match(sentence)):
            asked += len(sentence)
    return asked / max(whole, 1)


def _without_picture(text: str) -> str:
    """Drop the description that imports append to a shared picture: it is not the speaker's.

    >>> _without_picture("Do you like it? [picture: a dog]")
    'Do you like it?'
    """
    whole = text.rstrip()
    if not whole.endswith("]"):
        return text
    at = whole.find(_PICTURE, whole.rfind("]", 0, -1) + 1)
    return whole[:at].rstrip() if at >= 0 else text


@cached
def about_self(text: str) -> float:
    """Return the share of first-person words less that of second-person words, damped for short messages."""
    words = _WORD.findall(text.lower().replace("’", "'"))
    return sum(map(_PERSON.get, words, repeat(0))) / max(len(words), 8)


_ASKS: dict[AnswerType, re.Pattern[str]] = {
    "when": re.compile(
        r"\bwhen\b|\b(?:what|which) (?:year|month|day|date|time)\b|\bhow (?:long|often|recently)\b",
        re.IGNORECASE,
    ),
    "number": re.compile(
        r"\bhow (?:many|much|old|tall|big|long|far|often|heavy|aged|fast)\b|\bwhat time\b"
        r"|\b(?:price|costs?|number|phone|amount|weigh|password|code|percent)\b",
        re.IGNORECASE,
    ),
    "where": re.compile(r"\bwhere\b|\b(?:what|which) (?:city|country|place|state|town)\b", re.IGNORECASE),
    "who": re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE),
    "now": re.compile(
        r"\b(?:now|currently|still|latest|in the end|from now on|these days|at the moment|finally|eventually|nowadays"
        r"|yet|no longer|any ?more|most recent(?:ly)?|last time)\b",
        re.IGNORECASE,
    ),
    "decision": re.compile(PHRASES["asks decision"], re.IGNORECASE),
}


def asked(question: str) -> frozenset[AnswerType]:
    """Return what a question asks for.

    >>> sorted(asked("What did we decide about the boiler?")), sorted(asked("Is the boiler hot?"))
    (['decision'], [])
    """
    return frozenset(kind for kind, pattern in _ASKS.items() if pattern.search(question))


def _finder(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    @cached
    def says(text: str) -> bool:
        return pattern.search(text) is not None

    return says


SAYS: dict[AnswerType, Callable[[str], bool]] = {
    "when": _finder(_TIME),
    "number": _finder(_NUMBER),
    "where": _finder(_PLACE),
    "who": _finder(_PERSON_WORD),
}
"""Whether a message names a time, a number, a place, or somebody by a relation to the speaker (no pattern knows names).
"""
