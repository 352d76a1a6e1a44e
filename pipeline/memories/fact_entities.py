"""Extract the entities of a fact: its subject, and what its attribute relates to that. Pure.

A language model's fact says "partner" and "lena", or, where there may be several, "likes tea" and "yes".
"""

import re
from collections.abc import Iterator, Mapping

from pipeline.enrich.facts.fact_answers import matching_name
from pipeline.store.memories.entity_graph import EntityRow
from pipeline.text.caches import pattern
from pipeline.text.entity_names import first_name, normalized
from schemas.memory.entities import EntityKind
from schemas.memory.facts import Fact, is_denial

_KINDS: Mapping[str, EntityKind] = {
    "home": "place",
    "origin": "place",
    "employer": "organization",
    "partner": "person",
}
"""Kinds of entities that the values of the prompt's attributes name; other values are `unknown`."""
_NAMES = {"name", "nickname"}
_NO_ENTITIES = {*_NAMES, "age", "birthday", "phone", "email"}
_MAX_WORDS = 4
_AMOUNT_OR_ADDRESS = re.compile(r"^[\W\d]|@|://")


def entities_of(fact: Fact, user_id: str, names: Mapping[str, str], language: str) -> list[EntityRow]:
    """Return the entities of a fact: its subject under each of its names, and the entity related to that.

    `user_id` is the id of the sender whom it is about, or empty; `names` maps names in the chat to ids.
    """
    rows = list(_subject(fact, user_id, language))
    related = _related(fact)
    if related is not None:
        relation, value, kind = related
        place_like = kind in {"place", "organization"}
        member = None if place_like else matching_name(value, names)
        row = _row(
            member or _as_written(value, fact.content),
            names[member] if member else "",
            "person" if member else kind,
            relation,
            language,
        )
        if all((row.user_id, row.entity) != (other.user_id, other.entity) for other in rows):
            rows.append(row)
    return rows


def _subject(fact: Fact, user_id: str, language: str) -> Iterator[EntityRow]:
    """Yield the subject of a fact, under the name used there and under the one that the fact states."""
    if not fact.subject:
        return
    kind: EntityKind = "thing" if fact.about == "agent" else "person"
    row = _row(fact.subject, user_id, kind, "", language)
    yield row
    if fact.attribute in _NAMES and not is_denial(fact.value):
        name = _as_written(fact.value, fact.content)
        if (alias := normalized(name)) != row.alias:
            yield row._replace(name=name, alias=alias, short=first_name(name, language))


def _related(fact: Fact) -> tuple[str, str, EntityKind] | None:
    """Return `(relation, name, kind)` of the entity that a fact relates to its subject, if it names one."""
    if fact.value == "yes":
        relation, _, value = fact.attribute.partition(" ")
        kind: EntityKind = "thing"
    else:
        relation, value, kind = fact.attribute, fact.value, _KINDS.get(fact.attribute, "unknown")
    is_name = value and value != "no" and not is_denial(value) and not _AMOUNT_OR_ADDRESS.search(value)
    if relation in _NO_ENTITIES or not is_name or len(value.split()) > _MAX_WORDS:
        return None
    return relation, value, kind


def _row(name: str, user_id: str, kind: EntityKind, relation: str, language: str) -> EntityRow:
    alias = normalized(name)
    short = first_name(name, language) if kind == "person" else ""
    return EntityRow(user_id, "" if user_id else alias, name, alias, short, kind, relation)


def _as_written(value: str, content: str) -> str:
    """Return a value as the fact's sentence writes it; the value itself is in lower case.

    >>> _as_written("porto", "Ann lives in Porto."), _as_written("vienna", "Ann wohnt in Wien.")
    ('Porto', 'vienna')
    """
    match = pattern(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE).search(content)
    return match[0] if match else value
