"""Turn a clause that a rule matches into facts: whom it is about, in what words, and when it holds."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo

from pipeline.enrich.stated_facts import dates
from pipeline.enrich.stated_facts.dates import Said
from pipeline.enrich.stated_facts.rules import CLAUSES, Rule
from pipeline.enrich.stated_facts.wording import (
    core,
    is_denied,
    is_sound,
    objects,
    of_them,
    plain,
    singular,
    stems,
    until_its_end,
)
from pipeline.text.fencing import harmless
from pipeline.text.sentences import words
from pipeline.text.truncate import shortened
from schemas.facts import MAX_FACT_CHARS, About, Fact
from schemas.sessions import Message

_FIELD = re.compile(r"\{([a-z][a-z ]*)\}")
_NO_DIGIT = re.compile(r"\D+")
_FEWEST_OBJECT_CHARS = 20  # a fact whose object would be shorter is none


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Whom a clause is about."""

    about: About
    name: str
    # as sentences begin with it
    written: str
    # before the attribute, for somebody whose name is not said
    prefix: str = ""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A message, and what is known where its facts are read."""

    message: Message
    language: str
    speaker: str
    # on which it was said, in the chat's time zone
    day: date
    time_zone: tzinfo
    # the name of the bot that is addressed, or empty
    agent: str
    # whom the first word of a clause may mean, in lower case; None: one of several
    named: Mapping[str, Subject | None]


def facts(rule: Rule, match: re.Match[str], clause: str, whom: Subject, heard: Heard) -> Iterator[Fact]:
    """Yield the facts that a clause states by a rule; none if what it says is not sound."""
    language = heard.language
    groups = {key: value for key, value in match.groupdict().items() if value}
    key = next((name for name in ("learned", "object") if name in groups), "")
    begin = match.start(key) if key else match.start("rest") if "rest" in groups else match.end()
    raw = until_its_end(groups.get(key, ""), rule, language)
    tail = until_its_end(clause[begin:], rule, language)
    when = dates.find(tail, heard.day, language, past=rule.tense == "past")
    there = tail[when.start : when.end] if when else ""
    if when is None and rule.takes != "verbatim":
        # what is said before the object
        when = dates.find(clause[:begin], heard.day, language, past=rule.tense == "past")
        there = ""
    if when is None and (rule.dated or rule.takes == "birthday"):
        return
    until = None
    if when and there:
        when, until = _period(tail, when, rule, heard)
    if rule.takes == "verbatim":
        raw = dates.with_day(raw, heard.day, language)
    elif rule.takes == "birthday":
        raw = ""
    elif there:
        # `a table for tonight` loses its `for` as well
        raw = CLAUSES[language]["hanging"].sub("", raw.partition(there)[0].rstrip())
    whole = clause if rule.takes == "verbatim" else clause[: begin + len(raw)]
    read = max(
        len(raw),
        when.end if when and there else 0,
        match.end() - begin if key and match.end() > match.end(key) else 0,
    )
    if _denies(rule, clause[:begin].rstrip(), tail[:read], tail[read:], language):
        return
    for text in objects(raw, rule, language):
        if is_sound(text, rule, whole, language):
            fact = _fact(rule, text, groups, match[0][match.start(key or 0) :], when, until, whom, heard)
            if fact is not None:
                yield fact


def _period(tail: str, when: Said, rule: Rule, heard: Heard) -> tuple[Said, Said | None]:
    """Return the beginning that a clause names, and the end where it names one.

    What somebody does `from May until July` ends in the next July, and begins in the last May before it.
    """
    rest, language = tail[when.end :], heard.language
    until = dates.find(rest, when.first, language)
    if until is None or until.lead != "until":
        return when, None
    if rule.tense == "past" and not rule.changes and when.lead != "since" and not when.exact:
        until = dates.find(rest, heard.day, language) or until
        when = dates.find(tail, until.first, language, past=True) or when
    return when, until


def _denies(rule: Rule, before: str, read: str, following: str, language: str) -> bool:
    """Tell whether a clause denies what a rule reads in it; a decision may be not to do something."""
    if rule.negated:
        return False
    if rule.takes == "verbatim":
        return is_denied(before, "", language)
    return is_denied(f"{before} {read}", following, language)


def _fact(
    rule: Rule,
    text: str,
    groups: Mapping[str, str],
    matched: str,
    when: Said | None,
    until: Said | None,
    whom: Subject,
    heard: Heard,
) -> Fact | None:
    language = heard.language
    if rule.takes == "birthday" and when is not None and when.unit != "day":
        return None
    fields = _fields(rule, text, groups, matched, when, until, whom, heard)
    shape = (
        rule.content if rule.content[0].isupper() or rule.content[0] == "{" else f"{{subject}} {rule.content}"
    )
    if rule.category in ("event", "goal") and "{date}" not in shape and rule.takes != "verbatim":
        shape += " {date}"
    content = _sentence(shape, fields)
    if len(content) > MAX_FACT_CHARS:
        room = len(fields["object"]) - (len(content) - MAX_FACT_CHARS)
        if room < _FEWEST_OBJECT_CHARS:
            return None
        content = _sentence(
            shape, fields | dict.fromkeys(("object", "a object"), shortened(fields["object"], room))
        )
    told = fields | {"object": core(fields["object"], rule, language)}
    low = {key: plain(value, language) for key, value in told.items()} | {"exact": text.lower()}
    iso = {"date": when.first.isoformat(), "birthday": f"{when.first:%m-%d}"} if when else {}
    low |= {
        "digits": _NO_DIGIT.sub("", text),
        "pair": " or ".join(sorted((low["object"], low["place"]))),
    } | iso
    stemmed = {key: stems(value, language) for key, value in told.items()}
    stemmed |= {"kind": _counted(text), "pair": low["pair"]}
    value = _filled(rule.value, low) if rule.attribute else ""
    if rule.attribute and not value:
        return None
    begins, ends = _holds(rule, when, until, heard)
    about = whom.about if rule.about == "speaker" else rule.about
    return Fact(
        content=content,
        category=rule.category,
        about=about,
        subject={"agent": heard.agent, "organization": ""}.get(about, whom.name),
        attribute=f"{whom.prefix}{_filled(rule.attribute, stemmed)}" if rule.attribute else "",
        value=value,
        confidence=rule.confidence,
        importance=rule.importance,
        message_ids=(heard.message.id,),
        holds_from=begins,
        holds_until=ends,
    )


def _fields(
    rule: Rule,
    text: str,
    groups: Mapping[str, str],
    matched: str,
    when: Said | None,
    until: Said | None,
    whom: Subject,
    heard: Heard,
) -> dict[str, str]:
    """Return what may be put into the sentence."""
    language = heard.language
    text = text if rule.takes == "verbatim" else of_them(text, language)
    place = of_them(until_its_end(groups.get("place", ""), rule, language), language)
    return {
        "subject": whom.written,
        "speaker": heard.speaker,
        "agent": heard.agent,
        "object": text,
        "a object": with_article(text) if rule.article else text,
        "place": place,
        "count": groups.get("count", ""),
        "matched": matched,
        "date": " ".join(dates.written(one, language) for one in (when, until) if one),
        "birthday": dates.birthday(when, language) if when else "",
    }


def _sentence(shape: str, fields: Mapping[str, str]) -> str:
    return harmless(_filled(shape, fields).rstrip(" .") + ".")


def _filled(shape: str, fields: Mapping[str, str]) -> str:
    return " ".join(_FIELD.sub(lambda found: fields[found[1]], shape).split())


def with_article(text: str) -> str:
    """Put the article before it that the pattern left out, unless it is a plural."""
    return text if text.endswith("s") else f"{'an' if text[:1].lower() in 'aeiou' else 'a'} {text}"


def _counted(text: str) -> str:
    """Return what is counted.

    >>> _counted("two small kids"), _counted("one son and two daughters")
    ('kid', 'daughter')
    """
    return singular((words(text.lower()) or [""])[-1])


def _holds(
    rule: Rule, when: Said | None, until: Said | None, heard: Heard
) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment at which it holds, where they are said.

    A change holds from when it was said.
    """
    if when is not None and when.lead == "until":
        return None, datetime.combine(when.last, time.max, heard.time_zone)
    if when is not None and rule.takes not in ("birthday", "verbatim"):
        ends = datetime.combine(until.last, time.max, heard.time_zone) if until else None
        return datetime.combine(when.first, time(), heard.time_zone), ends
    return (heard.message.sent_at if rule.changes else None), None
