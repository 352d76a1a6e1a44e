"""Read a session to learn facts from: its messages, its speakers, and known facts about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.enrich.protocols import People
from pipeline.store.chats import chats, membership
from pipeline.store.chats.chats import Chat
from pipeline.store.chats.membership import Member
from pipeline.store.memories import evidence, learned
from pipeline.store.messages import messages
from pipeline.store.people import identities
from pipeline.store.sessions import sessions
from schemas.memory.facts import KnownFact
from schemas.sessions import Message

MAX_MESSAGES = 2000
"""Latest messages of a session that are read."""
KNOWN_TO_MODEL = 40
"""Most current memories about the speakers of a session that a language model is given."""


@dataclass(frozen=True, kw_only=True)
class SessionRead:
    """A session with all that extraction needs."""

    row: Row[Any]
    chat: Chat
    messages: Sequence[Message]
    people: People
    known: Sequence[KnownFact]
    # the bot's id; None: no bot has spoken
    agent_id: str | None


def read(connection: Connection, session_id: int) -> SessionRead | None:
    """Read a session to learn facts from; None if it is gone, its chat's memory is off, or retention has pruned it."""
    row = sessions.find(connection, session_id)
    if row is None or row.id != session_id:
        return None
    chat = chats.get(connection, row.chat_id)
    place = row.chat_id, row.session_key, row.started_at, row.ended_at
    if chat is None or not chat.memory or messages.count_in_range(connection, *place) < row.message_count:
        return None
    talk = messages.in_range(connection, *place, limit=MAX_MESSAGES)
    names, shared = _named(membership.names(connection, row.chat_id), talk)
    bots = [message for message in talk if message.role == "assistant"]
    speakers = sorted({message.sender_id for message in talk if message.role == "user"})
    return SessionRead(
        row=row,
        chat=chat,
        messages=talk,
        people=People(kind=chat.kind, names=names, shared=shared, agent=bots[-1].speaker if bots else ""),
        known=_known(connection, row, speakers),
        agent_id=(bots[-1].agent_id or bots[-1].sender_id) if bots else None,
    )


def _named(members: Sequence[Member], talk: Sequence[Message]) -> tuple[dict[str, str], frozenset[str]]:
    """Map each name to its sender, and return the names that, ignoring case, several people share."""
    persons = {member.sender_id: member.person for member in members}
    pairs = [(member.sender_name, member.sender_id) for member in members if member.sender_name]
    pairs += [(message.speaker, message.sender_id) for message in talk if message.role == "user"]
    bearers: dict[str, set[str]] = {}
    for name, sender_id in pairs:
        bearers.setdefault(name.casefold(), set()).add(persons.get(sender_id, sender_id))
    shared = frozenset(name for name, _ in pairs if len(bearers[name.casefold()]) > 1)
    return {name: sender_id for name, sender_id in pairs if name not in shared}, shared


def _known(connection: Connection, session: Row[Any], speakers: Sequence[str]) -> list[KnownFact]:
    """Return the latest facts about the speakers from other sessions of the chat, which are safe to repeat in it."""
    ids = [sender_id for speaker in speakers for sender_id in identities.ids_of(connection, speaker)]
    of_session = evidence.memories_of(connection, session.id)
    here = [
        row
        for row in learned.of_person(connection, ids)
        if row.learned_in == session.chat_id
        and row.retracted_at is None
        and not row.superseded
        and row.id not in of_session
    ]
    latest = sorted(here, key=lambda row: row.said_at)[-KNOWN_TO_MODEL:]
    return [_fact(row) for row in latest]


def _fact(memory: Row[Any]) -> KnownFact:
    """Return a memory as a fact."""
    return KnownFact(
        id=memory.id,
        content=memory.content,
        subject=memory.subject,
        attribute=memory.attribute,
        value=memory.value,
        said_at=memory.said_at,
    )
