"""Read a model's answer as facts: one that cannot be used is dropped, an answer that has none of them is refused."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any
from uuid import UUID

from pipeline.enrich.facts.fact_grounding import Said
from pipeline.enrich.facts.fact_prompts import PERSON
from pipeline.enrich.protocols import People
from pipeline.enrich.summaries.answers import InvalidAnswer, json_object
from pipeline.enrich.summaries.prompts import name_of
from pipeline.text.sentences import words
from pipeline.text.truncate import one_line, shortened
from schemas.memory.facts import CATEGORIES, MAX_FACT_CHARS, About, Fact, KnownFact
from schemas.sessions import Message

HEARSAY_CONFIDENCE = 0.7
"""The most confidence in what people say of each other."""
# A longer one is a story; between the two limits it is cut.
_MAX_GIVEN_CHARS = 200
_MAX_FACTS_READ = 50
_MAX_EVIDENCE = 5
_MAX_KEY_CHARS = 60
_DEFAULT_CONFIDENCE, _DEFAULT_IMPORTANCE = 0.5, 5.0
_YEARS = range(1900, 2201)
_MESSAGE_NUMBER = re.compile(r"\[?([0-9]{1,6})\]?")
_KNOWN_NUMBER = re.compile(r"\[?k([0-9]{1,4})\]?", re.IGNORECASE)


def read(
    answer: str,
    messages: Sequence[Message],
    *,
    people: People,
    known: Sequence[KnownFact],
    time_zone: tzinfo,
    language: str = "english",
) -> list[Fact]:
    """Read the facts of an answer, which names messages and known facts by their numbers. Raises `InvalidAnswer`."""
    given = json_object(answer, "facts")["facts"]
    if not isinstance(given, list):
        raise InvalidAnswer('"facts" must be a list of objects')
    shaped = [each for each in given if _is_shaped(each)]
    if given and not shaped:
        raise InvalidAnswer('each of "facts" must be an object with a text "content" and a list "messages"')
    reader = _Reader(messages, people, known, time_zone, language)
    return [fact for each in shaped[:_MAX_FACTS_READ] for fact in reader.facts(each)]


def chosen(facts: Sequence[Fact], messages: Sequence[Message], most: int) -> list[Fact]:
    """Return the most important of the facts of a session's messages, the last said about the same."""
    place = {message.id: index for index, message in enumerate(messages)}
    by_topic: dict[tuple[str, str, str], Fact] = {}
    for fact in sorted(facts, key=lambda fact: max(place[each] for each in fact.message_ids)):
        # two people may have one name
        sender = messages[place[fact.message_ids[0]]].sender_id if fact.about == "speaker" else ""
        by_topic[sender, fact.subject.casefold(), fact.attribute or fact.content.casefold()] = fact
    ranked = sorted(by_topic.values(), key=lambda fact: (-fact.importance, -fact.confidence))
    return ranked[:most]


def _is_shaped(given: object) -> bool:
    return (
        isinstance(given, dict)
        and isinstance(given.get("content"), str)
        and isinstance(given.get("messages"), list)
    )


class _Reader:
    """What the facts of one answer are held against."""

    def __init__(
        self,
        messages: Sequence[Message],
        people: People,
        known: Sequence[KnownFact],
        time_zone: tzinfo,
        language: str,
    ) -> None:
        self._messages = messages
        self._said = Said(messages, language)
        self._people = people
        self._known = known
        self._time_zone = time_zone

    def facts(self, given: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield a fact, of each speaker of one name who says it; none without evidence, of nobody here or not said."""
        evidence = self._evidence(given["messages"])
        by_sender = {self._messages[index].sender_id: self._messages[index].speaker for index in evidence}
        fact = self._fact(given, evidence)
        if fact is None:
            return
        yield fact
        if fact.about != "speaker":
            return
        first = next(m.sender_id for m in self._messages if m.id == fact.message_ids[0])
        for sender, name in by_sender.items():
            if (
                sender != first
                and name == fact.subject
                and (other := self._fact(given, self._by(sender, evidence)))
            ):
                yield other

    def _fact(self, given: Mapping[str, Any], evidence: list[int]) -> Fact | None:
        content, category = one_line(given["content"]), _key(given.get("category"))
        if not 0 < len(content) <= _MAX_GIVEN_CHARS or category not in CATEGORIES or not evidence:
            return None
        content = shortened(content, MAX_FACT_CHARS)
        found = self._subject(_key(given.get("about")), one_line(_text(given.get("subject"))), evidence)
        if found is None:
            return None
        about, subject, evidence = found
        if about in {"speaker", "person"} and not _is_named(subject, content):
            return None
        if not self._said.states(content, subject, evidence):
            return None
        attribute, value = _key(given.get("attribute")), _key(given.get("value"))
        confidence = _number(given.get("confidence"), _DEFAULT_CONFIDENCE, 0, 1)
        holds_from = _date(given.get("holds_from"), time.min, self._time_zone)
        holds_until = _date(given.get("holds_until"), time.max, self._time_zone)
        if holds_from and holds_until and holds_until < holds_from:
            holds_until = None
        return Fact(
            content=content,
            category=category,
            about=about,
            subject=subject,
            attribute=attribute if value else "",
            value=value if attribute else "",
            confidence=min(confidence, HEARSAY_CONFIDENCE) if about == "person" else confidence,
            importance=_number(given.get("importance"), _DEFAULT_IMPORTANCE, 1, 10),
            message_ids=tuple(self._messages[index].id for index in evidence),
            holds_from=holds_from,
            holds_until=holds_until,
            # what people say of each other replaces nothing by its number: an order to do so is easily written
            replaces=() if about == "person" else tuple(self._replaced(given.get("replaces"), subject)),
        )

    def _evidence(self, numbers: Iterable[object]) -> list[int]:
        """Return the indices of people's messages among these numbers, in order."""
        found = (_MESSAGE_NUMBER.fullmatch(_text(number).strip()) for number in numbers)
        indices = sorted({int(match[1]) - 1 for match in found if match})
        there = (index for index in indices if 0 <= index < len(self._messages))
        return [index for index in there if self._messages[index].role == PERSON][:_MAX_EVIDENCE]

    def _subject(self, about: str, given: str, evidence: list[int]) -> tuple[About, str, list[int]] | None:
        """Return whom a fact is about, by which name, and which of its messages say it."""
        agent, name = self._people.agent, given.lstrip("@")
        if about == "organization":
            return "organization", "", evidence
        if about == "agent":
            return ("agent", agent, evidence) if agent else None
        if about not in {"speaker", "person"}:
            return None
        said = [self._messages[index] for index in evidence]
        if about == "speaker" and name.casefold() in {"", about}:
            name = said[0].speaker
        if own := matching_name(name, [message.speaker for message in said]):
            sender = next(message.sender_id for message in said if message.speaker == own)
            return "speaker", own, self._by(sender, evidence)
        if agent and name.casefold() == agent.casefold():
            return "agent", agent, evidence
        member = matching_name(name, (*self._people.names, *self._people.shared))
        if member and member in self._people.names:
            return "person", member, evidence
        if not self._said.names(name):
            return None
        # somebody who is not here: it is the first speaker who tells of them
        return "speaker", name_of(name), self._by(said[0].sender_id, evidence)

    def _by(self, sender_id: str, evidence: Sequence[int]) -> list[int]:
        return [index for index in evidence if self._messages[index].sender_id == sender_id]

    def _replaced(self, numbers: object, subject: str) -> Iterable[UUID]:
        """Yield the known facts of this subject among these numbers."""
        for number in numbers if isinstance(numbers, list) else ():
            match = _KNOWN_NUMBER.fullmatch(_text(number).strip())
            if match and 0 < int(match[1]) <= len(self._known):
                fact = self._known[int(match[1]) - 1]
                if fact.subject.casefold() == subject.casefold():
                    yield fact.id


def matching_name(name: str, names: Iterable[str]) -> str | None:
    """Return which of the names is meant: the same whatever its case, else the only one that begins with its word.

    >>> matching_name("ann", ["Ann Lee", "Ben"]), matching_name("Ann", ["Ann Lee", "Ann Ray"])
    ('Ann Lee', None)
    """
    low, known = name.casefold(), sorted(set(names))
    for each in known:
        if low and each.casefold() == low:
            return each
    first = [each for each in known if low and each.casefold().split()[:1] == [low]]
    return first[0] if len(first) == 1 else None


def _is_named(subject: str, content: str) -> bool:
    """Tell whether a sentence has a word of its subject's name, inflected or not.

    >>> _is_named("Анна Ли", "У Анны есть кот."), _is_named("Ann", "She has a cat.")
    (True, False)
    """
    low = content.casefold()
    return any(part.casefold()[: max(len(part) - 1, 3)] in low for part in words(subject) or [subject])


def _text(given: object) -> str:
    """Return a text, a number or a truth as text, anything else as nothing."""
    if isinstance(given, bool):
        return "yes" if given else "no"
    return str(given) if isinstance(given, str | int | float) else ""


def _key(given: object) -> str:
    return one_line(_text(given)).lower()[:_MAX_KEY_CHARS].strip()


def _number(given: object, otherwise: float, least: float, most: float) -> float:
    try:
        number = float(_text(given))
    except (ValueError, OverflowError):
        return otherwise
    return min(max(number, least), most) if math.isfinite(number) else otherwise


def _date(given: object, at: time, time_zone: tzinfo) -> datetime | None:
    """Return a day's first or last moment there, or the moment itself where it is given; None: it is no date."""
    try:
        if len(text := _text(given).strip()) == len("2026-05-31"):
            found = datetime.combine(date.fromisoformat(text), at, time_zone)
        else:
            found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.year not in _YEARS:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=time_zone)).astimezone(UTC)
