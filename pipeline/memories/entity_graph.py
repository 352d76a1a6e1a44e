"""Keep the entity graph: who and what each session speaks of, written anew whenever the session is learned from."""

from collections.abc import Sequence

from sqlalchemy import Connection

from pipeline.enrich import session_entities
from pipeline.enrich.session_entities import NamedEntity, Person, SessionEntities
from pipeline.store import entity_graph as store
from pipeline.store import sessions
from pipeline.store.entity_graph import AliasRow, EntityKey, LinkRow, RelationRow
from schemas.facts import KnownFact
from schemas.sessions import Message


def note_session(
    connection: Connection,
    tenant_id: str,
    session_id: int,
    chat_id: str,
    messages: Sequence[Message],
    facts: Sequence[KnownFact],
    language: str,
) -> None:
    """Replace what a session says of entities, from its messages and the memories that were learned from it.

    Call it under `suppression_list.lock` of the chat, in the transaction that saves what was learned. Idempotent.
    """
    row = sessions.find(connection, session_id)
    if row is None or row.id != session_id:
        return
    known = [Person(user_id=user_id, name=name) for user_id, name in store.people(connection, chat_id)]
    found = session_entities.found_in(
        messages, facts, language=language, known=known, names=row.entities, decisions=row.decisions
    )
    keys = [_key(each) for each in found.entities]
    there = store.lock(connection, [session_id], keys)
    store.empty(connection, [session_id])
    if keys:
        ids = store.put(connection, tenant_id, [(_key(each), each.kind) for each in found.entities])
        _link(connection, tenant_id, session_id, chat_id, found, [ids[key] for key in keys], messages)
    store.drop_unused(connection, there)


def _key(entity: NamedEntity) -> EntityKey:
    # a person is the same one under every name, which only those of the chat may know
    return EntityKey(entity.user_id or entity.name, entity.user_id)


def _link(
    connection: Connection,
    tenant_id: str,
    session_id: int,
    chat_id: str,
    found: SessionEntities,
    ids: Sequence[int],
    messages: Sequence[Message],
) -> None:
    writing = {message.sender_id for message in messages if message.role == "user"}
    began = messages[0].sent_at
    links = []
    for identity, entity in zip(ids, found.entities, strict=True):
        links += [LinkRow(identity, message, None, at) for message, at in entity.messages.items()]
        links += [LinkRow(identity, None, memory, at) for memory, at in entity.memories.items()]
        if entity.user_id in writing:
            links.append(LinkRow(identity, None, None, began))
    store.link(
        connection,
        tenant_id,
        session_id,
        chat_id,
        named=[
            AliasRow(identity, alias, display)
            for identity, entity in zip(ids, found.entities, strict=True)
            for alias, display in entity.aliases.items()
        ],
        links=links,
        relations=[
            RelationRow(ids[each.one], ids[each.other], each.weight, each.first_at, each.last_at)
            for each in found.relations
        ],
    )
