"""Learn whom people have: relations and pets that they introduce by name, or mention as theirs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.enrich.stated_facts import dates
from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, CLAUSES, KIN
from pipeline.enrich.stated_facts.statements import Heard, Subject, with_article
from pipeline.text.cues import stop_words
from pipeline.text.fencing import harmless
from schemas.facts import Fact

MAX_NAME_CHARS = 40
_KIN_IMPORTANCE = {"partner": 7, "pet": 5, "person": 5}
_UNNAMED_IMPORTANCE = 4


def introduced(sentence: str, heard: Heard) -> Iterator[tuple[Subject, Fact]]:
    """Yield whom the speaker introduces as theirs, such as `my sister Lena`."""
    for match in KIN[heard.language].finditer(sentence):
        if found := introduction(match, heard):
            yield found


def introduction(match: re.Match[str], heard: Heard) -> tuple[Subject, Fact] | None:
    """Return who is introduced where a sentence names a relation; None: by no name."""
    language = BY_LANGUAGE[heard.language]
    name, found = match["name"] or match["called"], relation_of(match["relation"], heard.language)
    if not name or found is None or len(name) > MAX_NAME_CHARS:
        return None
    if name.lower() in stop_words(heard.language).words:
        return None
    if dates.find(f"on {name}", heard.day, heard.language):
        return None
    kind, relation, written = found
    name = name[0].upper() + name[1:]
    fields = {"speaker": heard.speaker, "name": name, "relation": name, "kind": written}
    attribute = kind if kind == "partner" else f"{relation if kind == 'person' else kind} {name.lower()}"
    fact = Fact(
        content=harmless(language.kin["called"].format(**fields)),
        category="relation",
        about="speaker",
        subject=heard.message.sender_name,
        attribute=attribute,
        value=name.lower() if kind == "partner" else "yes",
        confidence=0.9,
        importance=_KIN_IMPORTANCE[kind],
        message_ids=(heard.message.id,),
    )
    return Subject(about="speaker", name=name, written=language.kin["named"].format(**fields)), fact


def relation_of(said: str, language: str) -> tuple[str, str, str] | None:
    """Return the kind of a relation, its English word, and how it is written."""
    for kind, relations in BY_LANGUAGE[language].relations.items():
        if said.lower() in relations:
            english, _, written = relations[said.lower()].partition("|")
            return kind, english, written or english
    return None  # patterns take more letters for alike than `lower` does


def owned(sentence: str, heard: Heard) -> Iterator[Fact]:
    """Yield that the speaker has a relation whose name is not said, such as `my husband`."""
    language = BY_LANGUAGE[heard.language]
    if CLAUSES[heard.language]["gone"].search(sentence):
        return
    for match in KIN[heard.language].finditer(sentence):
        found = relation_of(match["relation"], heard.language)
        if match["name"] or match["called"] or found is None or found[1] not in language.clauses["kept"]:
            continue
        kind, relation, written = found
        # of `our kids` and `my horse painting` nobody has one
        if CLAUSES[heard.language]["ours"].match(match[0]) or (
            kind == "pet" and not CLAUSES[heard.language]["alone"].match(sentence, match.end())
        ):
            continue
        yield Fact(
            content=harmless(f"{heard.speaker} {language.clauses['has']} {_one(written, language.clauses)}."),
            category="relation",
            about="speaker",
            subject=heard.message.sender_name,
            attribute=f"relation {relation}",
            value="yes",
            confidence=0.8,
            importance=_UNNAMED_IMPORTANCE,
            message_ids=(heard.message.id,),
        )


def _one(written: str, words: Mapping[str, Any]) -> str:
    """Put the article before it that means one of them; a plural has none."""
    article, _, rest = written.partition(" ")
    if article in words["a"]:
        return f"{words['a'][article]} {rest}"
    return written if written in words["plurals"] else with_article(written)
