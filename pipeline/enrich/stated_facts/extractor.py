"""Extract the facts that people state explicitly, without a language model.

The same messages always give the same facts. What is read, and what it means, is in a file for each language.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

from pipeline.enrich import extraction
from pipeline.enrich.protocols import NOWHERE, People, Source
from pipeline.enrich.stated_facts import rules
from pipeline.enrich.stated_facts.agreements import agreed
from pipeline.enrich.stated_facts.relations import (
    MAX_NAME_CHARS,
    introduced,
    introduction,
    owned,
    relation_of,
)
from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, CLAUSES, KIN, SAYS, SAYS_OF, Rule
from pipeline.enrich.stated_facts.statements import Heard, Subject, facts
from pipeline.enrich.stated_facts.wording import clauses, own_words, stated
from pipeline.text import fencing
from pipeline.text.cues import stop_words
from pipeline.text.truncate import shortened
from schemas.facts import RULES, Fact, KnownFact, denies_another
from schemas.languages import parts_of
from schemas.messages import FORWARDED
from schemas.sessions import Message

_MAX_MESSAGES = 1000  # of a longer session the last ones are read
_FIRST_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BOT = re.compile(r"\bbot\b")
_ADDRESS_CHARS = 60  # at either end of a message that names the bot


class RuleExtractor:
    """Facts by rules for explicit statements, in the languages that have a file of them."""

    model = RULES

    def __init__(self) -> None:
        # before anything is claimed: what it takes the first time would count against a lease
        rules.load()

    def extract(
        self,
        messages: Sequence[Message],
        *,
        people: People,
        known: Sequence[KnownFact] = (),
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
        most: int = 3,
    ) -> list[Fact]:
        """Return at most `most` facts of messages in order of time, the most important first.

        Of two about the same attribute the last is returned, and the other with it if the last only denies another.
        """
        spoken = tuple(part for part in parts_of(source.language) if part in BY_LANGUAGE)
        languages = spoken or tuple(BY_LANGUAGE)
        found: dict[tuple[str, ...], Fact] = {}
        senders = {message.id: message.sender_id for message in messages}
        with extraction.turn(source):
            stated_facts = list(_stated(messages, people, languages, time_zone))
        for fact in stated_facts:
            # two people may have one name
            whose = senders[fact.message_ids[0]] if fact.about == "speaker" else ""
            named = (fact.about, whose, fact.subject, fact.attribute)
            key: tuple[str, ...] = named if fact.attribute else (whose, fact.content.lower())
            if key in found and denies_another(fact.value, found[key].value):
                key = *named, fact.value
            before = found.pop(key, None)
            found[key] = _repeated(before, fact) if before and before.value == fact.value else fact
        newest = reversed(found.values())
        return sorted(newest, key=lambda fact: -fact.importance * fact.confidence)[:most]


def _repeated(before: Fact, fact: Fact) -> Fact:
    """Return what is said again, with the messages of both times."""
    ids = dict.fromkeys((*before.message_ids, *fact.message_ids))
    return replace(fact, message_ids=tuple(ids), holds_from=before.holds_from or fact.holds_from)


def _stated(
    messages: Sequence[Message], people: People, languages: Sequence[str], time_zone: tzinfo
) -> Iterator[Fact]:
    """Yield the facts of each message of a person, in order."""
    agent = _name(people.agent)
    named = {language: _members(people, language) for language in languages}
    everybody = {each for name in (*people.names, *people.shared) for each in _called(name)}
    messages = [each for each in messages[-_MAX_MESSAGES:] if FORWARDED not in each.metadata]
    chars = extraction.chars_of_each([each.content for each in messages])
    messages = [replace(each, content=each.content[:chars]) for each in messages]
    for index, message in enumerate(messages):
        speaker = _name(message.sender_name)
        if message.role != "user" or not speaker:
            continue
        for language in languages:
            heard = Heard(
                message=message,
                language=language,
                speaker=speaker,
                day=message.sent_at.astimezone(time_zone).date(),
                time_zone=time_zone,
                agent=agent if _is_addressed(message.content, agent, people.kind) else "",
                named=named[language],
            )
            if people.kind != "direct":
                yield from agreed(messages, index, heard.day, language)
            meant: dict[str, Subject] = {}
            for sentence in stated(own_words(message.content, everybody, language), language):
                for subject, fact in introduced(sentence, heard):
                    _introduce(subject, named[language])
                    yield fact
                yield from owned(sentence, heard)
                yield from _of_sentence(sentence, heard, meant)


def _name(name: str) -> str:
    return shortened(fencing.name(name), MAX_NAME_CHARS)


def _introduce(subject: Subject, named: dict[str, Subject | None]) -> None:
    """Let a name mean whom somebody introduces by it, or nobody where a member of the chat has it too."""
    key = subject.name.lower()
    before = named.setdefault(key, subject)
    if before is not None and before.about == "person":
        named[key] = None


def _members(people: People, language: str) -> dict[str, Subject | None]:
    """Return the chat's people by their names and first names, without those that two of them have."""
    found: dict[str, list[str]] = {}
    for name in people.names:
        for key in _called(name):
            found.setdefault(key, []).append(name)
    several = {key for name in people.shared for key in _called(name)}
    return {
        key: Subject(about="person", name=names[0], written=_name(names[0]))
        for key, names in found.items()
        if len(names) == 1 and len(key) > 1 and key not in several | stop_words(language).words
    }


def _called(name: str) -> set[str]:
    """Return a name and its first name, in lower case."""
    return {name.lower(), *name.lower().split()[:1]}


def _is_addressed(content: str, agent: str, kind: str) -> bool:
    if not agent:
        return False
    ends = f"{content[:_ADDRESS_CHARS]} {content[-_ADDRESS_CHARS:]}".lower()
    return kind == "direct" or agent.lower() in ends or _BOT.search(ends) is not None


def _of_sentence(sentence: str, heard: Heard, meant: dict[str, Subject]) -> list[Fact]:
    """Return what is stated in a sentence; `meant` is whom the message has named so far."""
    found: list[tuple[Rule, Fact]] = []
    read: set[tuple[str, int]] = set()
    for clause in clauses(sentence, heard.language):
        for rule, pattern in SAYS[heard.language]:
            if rule.about == "agent" and not heard.agent:
                continue
            if (match := pattern.match(clause)) and _is_new(rule, match, clause, read):
                found += [(rule, fact) for fact in facts(rule, match, clause, _speaker(heard), heard)]
        if subject := _third_person(clause, heard) or _pronoun(clause, heard, meant):
            whom, rest = subject
            meant[whom.written] = whom
            for rule, pattern in SAYS_OF[heard.language]:
                if match := pattern.match(rest):
                    found += [(rule, fact) for fact in facts(rule, match, rest, whom, heard)]
    exact = [fact for rule, fact in found if rule.takes != "verbatim"]
    # the whole clause is kept where nothing more exact is read in it
    return exact or [fact for _, fact in found][:1]


def _is_new(rule: Rule, match: re.Match[str], clause: str, read: set[tuple[str, int]]) -> bool:
    """Tell whether a rule finds something that it did not find in a longer clause with the same end."""
    if "object" not in match.groupdict():
        return True
    key = rule.content, len(clause) - match.start("object")
    new = key not in read
    read.add(key)
    return new


def _speaker(heard: Heard) -> Subject:
    return Subject(about="speaker", name=heard.message.sender_name, written=heard.speaker)


def _pronoun(clause: str, heard: Heard, meant: Mapping[str, Subject]) -> tuple[Subject, str] | None:
    """Return whom `he` or `she` means where the message has named only one person, and the rest of the clause."""
    found = CLAUSES[heard.language]["they"].match(clause)
    if found is None or len(meant) != 1:
        return None
    (whom,) = meant.values()
    return whom, f"{'' if found[1] else BY_LANGUAGE[heard.language].clauses['of']}{clause[found.end() :]}"


def _third_person(clause: str, heard: Heard) -> tuple[Subject, str] | None:
    """Return the person whom a clause begins with, and the rest of it."""
    kin = KIN[heard.language].match(clause)
    if kin and (kin["name"] or kin["called"]):
        # a dog called Bob is not the Bob who talks here
        introduced_as = introduction(kin, heard)
        return (introduced_as[0], clause[kin.end() :]) if introduced_as else None
    if kin:
        if (found := relation_of(kin["relation"], heard.language)) is None:
            return None
        _, relation, written = found
        shape = BY_LANGUAGE[heard.language].kin["unnamed"]
        unnamed = shape.format(speaker=heard.speaker, kind=written)
        subject = Subject(
            about="speaker",
            name=heard.message.sender_name,
            written=unnamed[0].upper() + unnamed[1:],
            prefix=f"{relation} ",
        )
        return subject, clause[kin.end() :]
    first = _FIRST_WORD.match(clause)
    if first and (known := heard.named.get(first[0].lower())):
        return known, clause[first.end() :]
    return None
