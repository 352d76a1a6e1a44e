"""Find the entities of a session, where each is mentioned, and which are mentioned together. Pure.

Its people are those who write in its chat; all else is named in what is said, in the summary or in a learned fact.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, combinations
from uuid import UUID

from pipeline.enrich import extraction
from pipeline.text.entities import entities
from pipeline.text.entity_names import Mentions, is_name, kind_of, normalized, short_forms
from pipeline.text.sentences import sentences
from schemas.entities import EntityKind
from schemas.facts import KnownFact
from schemas.sessions import Message

MAX_NAMES = 24
"""Entities of a session besides those who write in it."""
MAX_RELATIONS = 40
# What each makes of two entities: both named in a sentence, one named by the other, in a decision, in a learned fact.
_TOGETHER, _BY_SPEAKER, _DECIDED, _LEARNED = 1.0, 0.5, 1.0, 3.0


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody who writes in a chat."""

    # the sender's id
    user_id: str
    # as the chat has it
    name: str


@dataclass(kw_only=True)
class NamedEntity:
    """An entity of a session."""

    # normalized
    name: str
    kind: EntityKind
    # the sender's id of somebody who writes in the chat; empty: nobody who does
    user_id: str = ""
    # normalized names, each with how it is written; short forms are not written out
    aliases: dict[str, str] = field(default_factory=dict)
    # messages that mention it, with their times
    messages: dict[int, datetime] = field(default_factory=dict)
    memories: dict[UUID, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Two entities of a session, by their places in its list, and how much is said of both together."""

    one: int
    other: int
    weight: float
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, kw_only=True)
class SessionEntities:
    """The entities of a session and their relations."""

    entities: Sequence[NamedEntity]
    relations: Sequence[Relation]


def found_in(
    messages: Sequence[Message],
    facts: Sequence[KnownFact] = (),
    *,
    language: str,
    known: Iterable[Person] = (),
    names: Iterable[str] = (),
    decisions: Iterable[str] = (),
) -> SessionEntities:
    """Find the entities of a session's messages, in order of time, and of the facts learned from it.

    `known` are people who have written in the chat before; `names` and `decisions` are those of its summary.
    """
    if not messages:
        return SessionEntities(entities=(), relations=())
    session = _Session(messages, known, language)
    chars = extraction.chars_of_each([message.content for message in messages])
    texts = [message.content[:chars] for message in messages]
    said = "\n".join(texts).casefold()
    summarized = (name for name in names if normalized(name) in said)
    found = chain(entities(texts, language, limit=2 * MAX_NAMES), summarized)
    named = [name for name in found if is_name(name, language)]
    session.name([*named, *chain.from_iterable(_named_by(fact, language) for fact in facts)], texts)
    session.read(messages, texts)
    for decision in decisions:
        session.relate(session.mentioned(decision), _DECIDED, messages[-1].sent_at)
    for fact in facts:
        session.learn(fact)
    return session.entities()


def _named_by(fact: KnownFact, language: str) -> list[str]:
    """Return the names in a learned fact: its subject, and its value if that is written like a name."""
    at = fact.content.casefold().find(fact.value.casefold()) if fact.value else -1
    value = fact.content[at : at + len(fact.value)] if at >= 0 else ""
    return [name for name in (fact.subject, value) if name[:1].isupper() and is_name(name, language)]


class _Session:
    """The entities of a session while it is read."""

    def __init__(self, messages: Sequence[Message], known: Iterable[Person], language: str) -> None:
        self._language = language
        self._entities: list[NamedEntity] = []
        # the place of the entity that a normalized name means
        self._by_name: dict[str, int] = {}
        self._speakers: dict[str, int] = {}
        self._mentions = Mentions(())
        self._weights = defaultdict[tuple[int, int], float](float)
        self._times: dict[tuple[int, int], tuple[datetime, datetime]] = {}
        writing = [Person(user_id=m.sender_id, name=m.speaker) for m in messages if m.role == "user"]
        for person in dict.fromkeys((*writing, *known)):
            self._add_person(person)
        self._writing = {self._speakers[each.user_id] for each in writing if each.user_id in self._speakers}
        forms = [
            {form for alias in each.aliases for form in short_forms(alias, language)}
            for each in self._entities
        ]
        short = Counter(chain.from_iterable(forms))
        for place, entity in enumerate(self._entities):
            for form in sorted(forms[place]):
                # a first name that two have means neither
                if short[form] == 1 and form not in self._by_name:
                    entity.aliases[form] = ""
                    self._by_name[form] = place

    def _add_person(self, person: Person) -> None:
        name = normalized(person.name)
        if not name:
            return
        place = self._speakers.get(person.user_id)
        if place is None:
            place = self._speakers[person.user_id] = len(self._entities)
            self._entities.append(NamedEntity(name=name, kind="person", user_id=person.user_id))
        self._entities[place].aliases.setdefault(name, " ".join(person.name.split()))
        self._by_name.setdefault(name, place)

    def name(self, found: Sequence[str], texts: Sequence[str]) -> None:
        """Add the entities of these names, up to `MAX_NAMES` that are new; a first word may mean the whole name."""
        most = len(self._entities) + MAX_NAMES
        whole = defaultdict[str, set[str]](set)
        for name in (*self._by_name, *map(normalized, found)):
            for first in short_forms(name, self._language):
                whole[first].add(name)
        for each in sorted(found, key=lambda each: " " not in each):
            name = normalized(each)
            if name in self._by_name:
                continue
            longer = self._by_name.get(min(whole[name])) if len(whole[name]) == 1 else None
            if longer is not None:
                self._by_name[name] = longer
                self._entities[longer].aliases[name] = ""
            elif len(self._entities) < most:
                self._by_name[name] = len(self._entities)
                written = " ".join(each.split())
                self._entities.append(
                    NamedEntity(name=name, kind=kind_of(written, texts), aliases={name: written})
                )
        self._mentions = Mentions(self._by_name)

    def mentioned(self, text: str) -> list[int]:
        """Return the entities that a text mentions."""
        return sorted({self._by_name[name] for name in self._mentions.of(text) if name in self._by_name})

    def read(self, messages: Sequence[Message], texts: Sequence[str]) -> None:
        """Note who is mentioned where, and with whom."""
        for message, text in zip(messages, texts, strict=True):
            speaker = self._speakers.get(message.sender_id) if message.role == "user" else None
            in_message = set[int]()
            for sentence in sentences(text):
                found = self.mentioned(sentence)
                self.relate(found, _TOGETHER, message.sent_at)
                in_message.update(found)
            for place in in_message:
                self._entities[place].messages[message.id] = message.sent_at
                if speaker is not None and place != speaker:
                    self.relate([speaker, place], _BY_SPEAKER, message.sent_at)

    def relate(self, places: Sequence[int], weight: float, at: datetime) -> None:
        """Relate each two of these entities."""
        for pair in combinations(sorted(places), 2):
            self._weights[pair] += weight
            first, last = self._times.get(pair, (at, at))
            self._times[pair] = (min(first, at), max(last, at))

    def learn(self, fact: KnownFact) -> None:
        """Link what a learned fact names to it, and relate its subject to the rest."""
        subject = self._by_name.get(normalized(fact.subject))
        named = {*self.mentioned(fact.content), *([] if subject is None else [subject])}
        for place in named:
            self._entities[place].memories[fact.id] = fact.said_at
            if subject is not None and place != subject:
                self.relate([subject, place], _LEARNED, fact.said_at)

    def entities(self) -> SessionEntities:
        """Return who writes or is named here, and the strongest relations among them."""
        here = [
            place
            for place, each in enumerate(self._entities)
            if place in self._writing or each.messages or each.memories
        ]
        renumbered = {place: number for number, place in enumerate(here)}
        strongest = sorted(self._weights, key=lambda pair: (-self._weights[pair], pair))[:MAX_RELATIONS]
        return SessionEntities(
            entities=[self._entities[place] for place in here],
            relations=[
                Relation(
                    one=renumbered[one],
                    other=renumbered[other],
                    weight=self._weights[one, other],
                    first_at=self._times[one, other][0],
                    last_at=self._times[one, other][1],
                )
                for one, other in strongest
                if one in renumbered and other in renumbered
            ],
        )
