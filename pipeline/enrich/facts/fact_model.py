"""Extract facts by a language model: ask it, drop unusable ones, and keep what the transcript states."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from pipeline.enrich.facts import fact_prompts
from pipeline.enrich.facts.fact_prompts import PERSON
from pipeline.enrich.model_calls import ModelCaller
from pipeline.enrich.protocols import NOWHERE, People, SummarySource
from pipeline.enrich.summaries import prompts
from pipeline.enrich.summaries.prompts import InvalidAnswer, foreign_link, json_object, name_of, stems
from pipeline.text.calendars import spans
from pipeline.text.sentences import words
from pipeline.text.truncate import one_line, shortened
from schemas.facts import CATEGORIES, MAX_FACT_CHARS, About, Fact, KnownFact
from schemas.sessions import Message


class LanguageModelExtractor(ModelCaller):
    """Ask the model, repair an answer once, and drop facts that the transcript does not state."""

    def extract(
        self,
        messages: Sequence[Message],
        *,
        people: People,
        known: Sequence[KnownFact] = (),
        source: SummarySource = NOWHERE,
        max_facts: int = 3,
    ) -> list[Fact]:
        """Return facts as `FactExtractor` does; a session longer than the window is read in parts."""
        answer_tokens = max(fact_prompts.answer_tokens(self._context_tokens, max_facts), self._answer_tokens)
        room = fact_prompts.room_for_data(self._context_tokens, answer_tokens)
        known = fact_prompts.fitting(known, source.time_zone, room)
        room -= fact_prompts.known_tokens(known, source.time_zone)
        runs = prompts.divided([prompts.clipped(message, room // 2) for message in messages], room)
        facts: list[Fact] = []
        for run in runs:
            # a bot's words are never learned, so a part without people's need not be read
            if any(message.role == fact_prompts.PERSON for message in run):
                facts += self._ask(run, people, known, source, max_facts, answer_tokens)
        return chosen_facts(facts, messages, max_facts)

    def _ask(
        self,
        run: Sequence[Message],
        people: People,
        known: Sequence[KnownFact],
        source: SummarySource,
        max_facts: int,
        answer_tokens: int,
    ) -> list[Fact]:
        """Ask for the facts of messages, and once more if the answer cannot be used. Raises `InvalidAnswer`."""
        prompt = fact_prompts.fact_prompt(
            run,
            known,
            people=people,
            time_zone=source.time_zone,
            language=source.language,
            max_facts=max_facts,
            max_tokens=answer_tokens,
        )
        read = partial(
            read_facts,
            messages=run,
            people=people,
            known=known,
            time_zone=source.time_zone,
            language=source.language,
        )
        return self._answer(prompt, read, purpose="extract", source=source)


HEARSAY_CONFIDENCE = 0.7
"""Highest confidence in what people say about each other."""
# A longer fact is dropped; one between this and `MAX_FACT_CHARS` is shortened.
_MAX_GIVEN_CHARS = 200
_MAX_FACTS_READ = 50
_MAX_EVIDENCE = 5
_MAX_KEY_CHARS = 60
_DEFAULT_CONFIDENCE, _DEFAULT_IMPORTANCE = 0.5, 5.0
_YEARS = range(1900, 2201)
_MESSAGE_NUMBER = re.compile(r"\[?([0-9]{1,6})\]?")
_KNOWN_NUMBER = re.compile(r"\[?k([0-9]{1,4})\]?", re.IGNORECASE)


def read_facts(
    answer: str,
    messages: Sequence[Message],
    *,
    people: People,
    known: Sequence[KnownFact],
    time_zone: tzinfo,
    language: str = "english",
) -> list[Fact]:
    """Read the facts of an answer, which names messages and known facts by their numbers. Raises `InvalidAnswer`."""
    items = json_object(answer, "facts")["facts"]
    if not isinstance(items, list):
        raise InvalidAnswer('"facts" must be a list of objects')
    shaped = [item for item in items if _is_shaped(item)]
    if items and not shaped:
        raise InvalidAnswer('each of "facts" must be an object with a text "content" and a list "messages"')
    reader = _AnswerReader(messages, people, known, time_zone, language)
    return [fact for item in shaped[:_MAX_FACTS_READ] for fact in reader.facts(item)]


def chosen_facts(facts: Sequence[Fact], messages: Sequence[Message], max_facts: int) -> list[Fact]:
    """Return the most important facts of a session's messages; of several about the same thing, the latest."""
    place = {message.id: index for index, message in enumerate(messages)}
    by_topic: dict[tuple[str, str, str], Fact] = {}
    for fact in sorted(facts, key=lambda fact: max(place[message_id] for message_id in fact.message_ids)):
        # two people may share a name
        sender = messages[place[fact.message_ids[0]]].sender_id if fact.about == "speaker" else ""
        by_topic[sender, fact.subject.casefold(), fact.attribute or fact.content.casefold()] = fact
    ranked = sorted(by_topic.values(), key=lambda fact: (-fact.importance, -fact.confidence))
    return ranked[:max_facts]


def _is_shaped(item: object) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("content"), str)
        and isinstance(item.get("messages"), list)
    )


class _AnswerReader:
    """Reads the facts of one answer, checked against its messages, people and known facts."""

    def __init__(
        self,
        messages: Sequence[Message],
        people: People,
        known: Sequence[KnownFact],
        time_zone: tzinfo,
        language: str,
    ) -> None:
        self._messages = messages
        self._transcript = Transcript(messages, language)
        self._people = people
        self._known = known
        self._time_zone = time_zone

    def facts(self, item: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield an item's fact for each speaker of that name who states it; nothing if it is unusable or ungrounded."""
        evidence = self._evidence(item["messages"])
        by_sender = {self._messages[index].sender_id: self._messages[index].speaker for index in evidence}
        fact = self._fact(item, evidence)
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
                and (other := self._fact(item, self._by_sender(sender, evidence)))
            ):
                yield other

    def _fact(self, item: Mapping[str, Any], evidence: list[int]) -> Fact | None:
        content, category = one_line(item["content"]), _key(item.get("category"))
        if not 0 < len(content) <= _MAX_GIVEN_CHARS or category not in CATEGORIES or not evidence:
            return None
        content = shortened(content, MAX_FACT_CHARS)
        resolved = self._subject(_key(item.get("about")), one_line(_text(item.get("subject"))), evidence)
        if resolved is None:
            return None
        about, subject, evidence = resolved
        if about in {"speaker", "person"} and not _is_named(subject, content):
            return None
        if not self._transcript.states(content, subject, evidence):
            return None
        attribute, value = _key(item.get("attribute")), _key(item.get("value"))
        confidence = _number(item.get("confidence"), _DEFAULT_CONFIDENCE, 0, 1)
        holds_from = _date(item.get("holds_from"), time.min, self._time_zone)
        holds_until = _date(item.get("holds_until"), time.max, self._time_zone)
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
            importance=_number(item.get("importance"), _DEFAULT_IMPORTANCE, 1, 10),
            message_ids=tuple(self._messages[index].id for index in evidence),
            holds_from=holds_from,
            holds_until=holds_until,
            # hearsay replaces no known fact: a message could easily order the model to do so
            replaces=() if about == "person" else tuple(self._replaced(item.get("replaces"), subject)),
        )

    def _evidence(self, numbers: Iterable[object]) -> list[int]:
        """Return the indices of people's messages among these numbers, in order."""
        matches = (_MESSAGE_NUMBER.fullmatch(_text(number).strip()) for number in numbers)
        indices = sorted({int(match[1]) - 1 for match in matches if match})
        valid = (index for index in indices if 0 <= index < len(self._messages))
        return [index for index in valid if self._messages[index].role == PERSON][:_MAX_EVIDENCE]

    def _subject(self, about: str, subject: str, evidence: list[int]) -> tuple[About, str, list[int]] | None:
        """Return whom a fact is about, their name, and the messages that state it."""
        agent, name = self._people.agent, subject.lstrip("@")
        if about == "organization":
            return "organization", "", evidence
        if about == "agent":
            return ("agent", agent, evidence) if agent else None
        if about not in {"speaker", "person"}:
            return None
        messages = [self._messages[index] for index in evidence]
        if about == "speaker" and name.casefold() in {"", about}:
            name = messages[0].speaker
        if speaker := matching_name(name, [message.speaker for message in messages]):
            sender = next(message.sender_id for message in messages if message.speaker == speaker)
            return "speaker", speaker, self._by_sender(sender, evidence)
        if agent and name.casefold() == agent.casefold():
            return "agent", agent, evidence
        member = matching_name(name, (*self._people.names, *self._people.shared))
        if member and member in self._people.names:
            return "person", member, evidence
        if not self._transcript.names(name):
            return None
        # somebody outside the chat: the fact belongs to the first speaker who mentions them
        return "speaker", name_of(name), self._by_sender(messages[0].sender_id, evidence)

    def _by_sender(self, sender_id: str, evidence: Sequence[int]) -> list[int]:
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
    """Return the name that is meant: the same one ignoring case, else the only one whose first word it is.

    >>> matching_name("ann", ["Ann Lee", "Ben"]), matching_name("Ann", ["Ann Lee", "Ann Ray"])
    ('Ann Lee', None)
    """
    low, candidates = name.casefold(), sorted(set(names))
    for candidate in candidates:
        if low and candidate.casefold() == low:
            return candidate
    first = [candidate for candidate in candidates if low and candidate.casefold().split()[:1] == [low]]
    return first[0] if len(first) == 1 else None


def _is_named(subject: str, content: str) -> bool:
    """Tell whether a sentence has a word of its subject's name, inflected or not.

    >>> _is_named("Анна Ли", "У Анны есть кот."), _is_named("Ann", "She has a cat.")
    (True, False)
    """
    low = content.casefold()
    return any(part.casefold()[: max(len(part) - 1, 3)] in low for part in words(subject) or [subject])


def _text(value: object) -> str:
    """Return a string, number or boolean as text; anything else as an empty string."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else ""


def _key(value: object) -> str:
    return one_line(_text(value)).lower()[:_MAX_KEY_CHARS].strip()


def _number(value: object, otherwise: float, least: float, most: float) -> float:
    try:
        number = float(_text(value))
    except (ValueError, OverflowError):
        return otherwise
    return min(max(number, least), most) if math.isfinite(number) else otherwise


def _date(value: object, at: time, time_zone: tzinfo) -> datetime | None:
    """Return a time in UTC; `at` is the time of a bare date, in `time_zone`. None for an invalid date."""
    try:
        if len(text := _text(value).strip()) == len("2026-05-31"):
            moment = datetime.combine(date.fromisoformat(text), at, time_zone)
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.year not in _YEARS:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=time_zone)).astimezone(UTC)


MIN_FOUND_SHARE = 0.3
"""Share of a fact's content words that must occur in its messages and those beside them: a true fact in the model's
own words has about two thirds, an invented one hardly any."""
# Messages of fewer content words count as answers to the one before them.
_TELLING_TERMS = 3
# A number up to this may have been written in words, or be part of a date.
_MAX_UNSAID_NUMBER = 31
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_TIME = re.compile(r"\d{1,2}:\d{2}")
# A Latin name in a script without spaces is a word of its own.
_SCRIPTS_MEET = re.compile("(?<=[A-Za-z0-9])(?=[\u0e00-\u9fff])")


class Transcript:
    """The messages of a transcript, in order, and their words."""

    def __init__(self, messages: Sequence[Message], language: str = "english") -> None:
        self._language = language
        self._messages = messages
        self._lines = [f"{message.speaker}: {message.content}" for message in messages]
        self._words = _folded("\n".join(self._lines))

    def names(self, name: str) -> bool:
        """Tell whether all words of a name occur, whatever their case."""
        name_words = _folded(name)
        return bool(name_words) and name_words <= self._words

    def states(self, content: str, subject: str, evidence: Sequence[int]) -> bool:
        """Tell whether a fact's words, numbers and links come from these messages and those beside them."""
        near = sorted({index for place in evidence for index in (place - 1, place, place + 1)})
        lines = [self._lines[index] for index in near if 0 <= index < len(self._lines)]
        text = "\n".join(lines)
        numbers = frozenset(_NUMBER.findall(text))
        unsaid = frozenset(_NUMBER.findall(content)) - numbers
        if foreign_link(content, text) or not all(map(_may_be_unsaid, unsaid)):
            return False
        at = self._messages[evidence[0]].sent_at
        _, undated = spans.dates_named(content, at, at, self._language)
        names = (subject, *(self._messages[index].speaker for index in evidence))
        fact_terms = stems(_SCRIPTS_MEET.sub(" ", undated)).difference(unsaid, *map(stems, names))
        grounded = fact_terms & (stems(text) | numbers)
        if not grounded or len(grounded) < MIN_FOUND_SHARE * len(fact_terms):
            return False
        cited = frozenset(chain.from_iterable(stems(self._messages[index].content) for index in evidence))
        return bool(fact_terms & cited) or len(cited) < _TELLING_TERMS


def _may_be_unsaid(number: str) -> bool:
    """Tell whether a number may come from a computed date or time, or was written in words."""
    if _TIME.fullmatch(number):
        return True
    return number.isdecimal() and (int(number) <= _MAX_UNSAID_NUMBER or int(number) in _YEARS)


def _folded(text: str) -> frozenset[str]:
    return frozenset(word.casefold().replace("\u2019", "'").removesuffix("'s") for word in words(text))
