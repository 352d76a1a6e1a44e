"""Decide where a memory may be shown: only where everybody present was there when it was learned.

The database prefilters; the pure functions here decide. They fail closed: a chat without known members, or with a
listener whose name is not kept, is shown only what was learned in it.

Who is in a chat, and whether it is a direct one, is stated by whoever hands over its messages. An API key for some
chats is not trusted in this: it sees only what was learned in these chats, and of what was learned in no chat only what
is the organization's. What it states of a chat sets the chat apart (triggers of the tables `chats` and `chat_members`):
nothing learned elsewhere is shown there and nothing learned there is shown elsewhere, except between that key's own
chats, until a key for all chats sets the members. It cannot change the kind of an existing chat. Nor does what it has
somebody say there tell whether they have said it elsewhere, as a memory is of one chat (`pipeline.memories.beliefs`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import Connection

from pipeline.store.chats import membership
from pipeline.store.chats.membership import Present, Seen, Visible
from schemas.memories import VisibilityPolicy

DEFAULT: VisibilityPolicy = "strict"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A chat with the people in it."""

    chat_id: str
    # `group`, `direct` or `thread`
    kind: str
    # persons, by the ids of their users
    persons: frozenset[str]
    # whether somebody is there who is not among `persons`
    others: bool = False


def policy_of(stored: str | None) -> VisibilityPolicy:
    """Return the policy of a tenant's settings; an unknown one shows nothing of other chats.

    >>> policy_of(None), policy_of("tenant"), policy_of("generous")
    ('strict', 'tenant', 'chat')
    """
    if stored is None:
        return DEFAULT
    return next((policy for policy in get_args(VisibilityPolicy) if policy == stored), "chat")


def place_of_question(
    chat_id: str,
    kind: str,
    members: Iterable[str],
    *,
    unnamed: bool,
    asker: str | None,
    apart: bool = False,
) -> Place:
    """Return the place of a question, with the chat's members and the asker in it.

    `unnamed` says that a member's name is not kept. In a direct chat with one known person that is this person;
    anywhere else, and where no member is known, it is an unknown listener. In a chat set `apart` anybody may listen.
    """
    known = frozenset(members)
    persons = known if asker is None else known | {asker}
    alone = kind == "direct" and len(persons) == 1
    others = apart or (not alone and (unnamed or not known))
    return Place(chat_id=chat_id, kind=kind, persons=persons, others=others)


def may_show(policy: VisibilityPolicy, learned: Place, here: Place) -> bool:
    """Tell whether what was learned in one place may be shown in the other.

    By `strict`, everybody here must have been there. A direct chat's memories are shown only in direct chats,
    and those of a chat where only one person has spoken, which may be an undeclared direct chat, in no group.
    """
    if learned.chat_id == here.chat_id or policy == "tenant":
        return True
    if policy == "chat" or here.others or not here.persons or not here.persons <= learned.persons:
        return False
    if learned.kind == "direct":
        return here.kind == "direct"
    return here.kind != "group" or learned.others or len(learned.persons) > 1


def is_alone(here: Place, asker: str | None) -> bool:
    """Tell whether nobody but the asker is in a direct chat or a thread, so that their own documents may be shown."""
    return here.kind != "group" and not here.others and asker is not None and here.persons == {asker}


def visible(
    policy: VisibilityPolicy, here: Place, places: Iterable[Place], only_chats: Collection[str] | None = None
) -> Visible:
    """Return the places whose memories may be shown here; this place's own always may.

    With `only_chats`, those of the asking key, no others are among them, whatever the policy.
    """
    chats = {place.chat_id for place in places if may_show(policy, place, here)}
    if only_chats is None:
        return Visible(everywhere=policy == "tenant", chats=frozenset(chats | {here.chat_id}))
    shown = set(only_chats) if policy == "tenant" else chats & set(only_chats)
    return Visible(everywhere=False, chats=frozenset(shown | {here.chat_id}), unplaced=False)


def seen(connection: Connection, chat_id: str, kind: str, user_id: str | None) -> Seen:
    """Return what may be shown in a chat when somebody, by any of their ids, asks there."""
    return seen_by(membership.present(connection, chat_id, user_id), chat_id, kind)


def seen_by(present: Present, chat_id: str, kind: str) -> Seen:
    """Return what may be shown in a chat of a kind to those who are present."""
    confined = present.only_chats is not None
    here = place_of_question(
        chat_id,
        kind,
        present.members,
        unnamed=present.unnamed,
        asker=present.asker,
        apart=present.apart and not confined,
    )
    places = [Place(**{**place, "persons": frozenset(place["persons"])}) for place in present.places]
    shown = visible(policy_of(present.policy), here, places, present.only_chats)
    # of a key for some chats nobody knows for whom it asks
    alone = not confined and is_alone(here, present.asker)
    return Seen(visible=shown, asker_ids=list(present.asker_ids), alone=alone)
