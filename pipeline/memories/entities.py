"""Entities of facts, with their names, links and relations, and a person's page: only what may be shown there.

A language model's fact says "partner" and "lena", or, where there may be several, "likes tea" and "yes".
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.enrich.facts.fact_model import matching_name
from pipeline.memories import statements
from pipeline.memories.statements import seen_in
from pipeline.people import identities as people
from pipeline.store import identities
from pipeline.store.chats.membership import EVERYWHERE, Seen
from pipeline.store.connections.database import Database
from pipeline.store.memories import entity_graph as store
from pipeline.store.memories import memory_search
from pipeline.store.memories.entity_graph import EntityRow
from pipeline.text import truncate
from pipeline.text.accents import LETTERS_AND_DIGITS
from pipeline.text.caches import pattern
from pipeline.text.cues import stop_words
from pipeline.text.sentences import UNSPACED
from schemas.errors import NotFound
from schemas.facts import (
    Entity,
    EntityFilter,
    EntityKind,
    EntityLink,
    EntityList,
    EntityPlace,
    Fact,
    ListedEntity,
    NamedEntities,
    RelatedEntity,
    is_denial,
)
from schemas.people import MAX_MESSAGES, KnownMemory, NamedChat, NamedMessage, UserFilter, UserPage

LINKS = 20
RELATED = 20
OF_A_NAME = 20
"""Entities shown of one name."""
PREVIEW_CHARS = 160


def listing(database: Database, tenant_id: str, filters: EntityFilter) -> EntityList:
    """List entities, those of most memories first. Raises `NotFound` for an unknown chat, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        seen, _ = seen_in(connection, filters.chat_id, filters.user_id)
        rows = store.listing(connection, seen, kind=filters.kind, limit=filters.limit)
    return EntityList(entities=[ListedEntity(**_listed(row)) for row in rows])


def show(database: Database, tenant_id: str, name: str, place: EntityPlace) -> NamedEntities:
    """Return the entities of a name or of a person's id, with links and relations.

    Raises `NotFound` for an unknown chat and a name that no memory names, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        seen, here = seen_in(connection, place.chat_id, place.user_id)
        users = identities.ids_of(connection, name)
        rows = store.listing(connection, seen, name=normalized(name), users=users, limit=OF_A_NAME)
        if not rows:
            raise NotFound(f"no memory names {name}")
        return NamedEntities(entities=[_entity(connection, seen, here, row) for row in rows])


def _listed(row: Row[Any]) -> dict[str, Any]:
    return {
        **{name: row._mapping[name] for name in ListedEntity.model_fields},
        "user_id": row.user_id or None,
    }


def _entity(connection: Connection, seen: Seen | None, here: str | None, row: Row[Any]) -> Entity:
    visible = EVERYWHERE if seen is None else seen.visible
    links = [
        EntityLink(
            memory_id=str(link.memory_id),
            chat_id=visible.source(link.learned_in, link.also_in, here),
            at=link.at,
            preview=truncate.shortened(truncate.one_line(link.content), PREVIEW_CHARS),
        )
        for link in store.links(connection, seen, row.user_id, row.entity, LINKS)
    ]
    related = [
        RelatedEntity.model_validate(relation._mapping)
        for relation in store.related(connection, seen, row.user_id, row.entity, RELATED)
    ]
    aliases = store.aliases(connection, seen, row.user_id, row.entity)
    return Entity(**_listed(row), aliases=aliases, links=links, related=related)


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


def user_page(database: Database, tenant_id: str, any_id: str, filters: UserFilter) -> UserPage:
    """Return the memories of a sender or user, under all their ids; with `chat_id` only those that may be shown there.

    An unknown id is a user of its own without memories. Documents are left out. Raises `NotFound` for an unknown chat,
    and `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        seen, _ = statements.seen_in(connection, filters.chat_id, any_id)
        visible = EVERYWHERE if seen is None else seen.visible
        person = people.person(connection, any_id, visible)
        ids = identities.ids_of(connection, any_id)
        rows = memory_search.known_of_person(
            connection, ids, visible, after=filters.after, limit=filters.limit
        )
        messages = defaultdict[UUID, list[NamedMessage]](list)
        for row in memory_search.messages_stating(
            connection, [row.id for row in rows], visible, MAX_MESSAGES
        ):
            fields = dict(row._mapping)
            messages[fields.pop("memory_id")].append(NamedMessage(**fields))
        named = {chat for row in rows for chat in (row.learned_in, *row.also_in) if chat is not None}
        titles = memory_search.titles_of_chats(
            connection, sorted(chat for chat in named if visible.shows(chat))
        )
    known = [(row.is_earlier, _known(row, messages[row.id], titles)) for row in rows]
    return UserPage(
        **person.model_dump(),
        current=[memory for is_earlier, memory in known if not is_earlier],
        earlier=[memory for is_earlier, memory in known if is_earlier],
    )


def _known(row: Row[Any], messages: list[NamedMessage], titles: Mapping[str, str]) -> KnownMemory:
    """Return a memory with those of its chats that may be named."""
    fields = {name: value for name, value in row._mapping.items() if name != "is_earlier"}
    places = [
        NamedChat(chat_id=chat, title=titles[chat] or "")
        for chat in (row.learned_in, *row.also_in)
        if chat in titles
    ]
    first = next((place for place in places if place.chat_id == row.learned_in), None)
    fields |= {"learned_in": first, "also_in": [p for p in places if p != first], "messages": messages}
    return KnownMemory(**fields)


MAX_NAME_CHARS = 80
_MIN_CHARS = 2
_MAX_UNSPACED_CHARS = 4
_CHARS_READ = 200
_WORD = re.compile(rf"{LETTERS_AND_DIGITS}(?:['’]{LETTERS_AND_DIGITS})*")


def normalized(name: str) -> str:
    """Return the form by which names are compared: one line, no case, no possessive.

    >>> normalized("  Ann’s "), normalized("Santa  Clara")
    ('ann', 'santa clara')
    """
    one_line = " ".join(name.split()).casefold()
    return one_line.removesuffix("'s").removesuffix("’s")[:MAX_NAME_CHARS]


def first_name(name: str, language: str) -> str:
    """Return the first word of a person's name by which they may be called, normalized; empty: there is none.

    >>> first_name("Lena Berger", "english"), first_name("Lena", "english")
    ('lena', '')
    """
    first, _, rest = normalized(name).partition(" ")
    usable = first.isalpha() and len(first) > _MIN_CHARS and first not in stop_words(language).words
    return first if rest and usable else ""


def possible_names(text: str, language: str) -> list[str]:
    """Return every run of up to four words of a question, normalized: the names that it may hold, in any case.

    Of scripts without spaces every run of two to four characters.

    >>> possible_names("Who saw Lena?", "english"), possible_names("王芳?", "chinese")
    (['who saw lena', 'saw lena', 'who saw', 'lena'], ['王芳'])
    """
    return list(dict.fromkeys(_runs(text, language)))


def _runs(text: str, language: str) -> Iterator[str]:
    words = [match[0] for match in _WORD.finditer(text)][:100]
    for length in range(_MAX_WORDS, 0, -1):
        for start in range(len(words) - length, -1, -1):
            run = normalized(" ".join(words[start : start + length]))
            if length > 1 or (len(run) >= _MIN_CHARS and run not in stop_words(language).words):
                yield run
    for unspaced in UNSPACED.findall(text[:_CHARS_READ]):
        for size in range(_MAX_UNSPACED_CHARS, _MIN_CHARS - 1, -1):
            yield from (unspaced[at : at + size] for at in range(len(unspaced) - size + 1))
