"""SQL of audiences: who is in a chat, and in which other chats all of them are.

One statement, so that links that change meanwhile are seen by all of it or by nothing.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from pipeline import audience
from pipeline.audience import Visible

# The other chats are looked for from one person's chats on; each is left at the first who is not there.
_SEEN = text("""
    WITH policy AS (
        SELECT settings->>'audience' AS audience FROM tenants
    ), asker AS (
        SELECT coalesce((SELECT user_id FROM user_senders WHERE sender_id = :user), :user) AS person
        WHERE CAST(:user AS text) IS NOT NULL
    ), members AS MATERIALIZED (
        SELECT DISTINCT coalesce(s.user_id, m.sender_id) AS person
        FROM chat_members m LEFT JOIN user_senders s ON s.sender_id = m.sender_id
        WHERE m.chat_id = :chat AND m.sender_id <> ''
    ), present AS MATERIALIZED (
        SELECT person FROM members UNION SELECT person FROM asker
    ), ids AS MATERIALIZED (
        SELECT person, person AS sender_id FROM present
        UNION ALL SELECT p.person, s.sender_id FROM present p JOIN user_senders s ON s.user_id = p.person
    ), unnamed AS (
        SELECT EXISTS (SELECT 1 FROM chat_members WHERE chat_id = :chat AND sender_id = '') AS there
    ), candidates AS MATERIALIZED (
        SELECT DISTINCT m.chat_id FROM ids i JOIN chat_members m ON m.sender_id = i.sender_id
        WHERE i.person = (SELECT coalesce((SELECT person FROM asker), min(person)) FROM present)
            AND m.chat_id <> :chat AND coalesce((SELECT audience FROM policy), 'strict') = 'strict'
    ), places AS (
        SELECT c.chat_id, c.kind, EXISTS (SELECT 1 FROM chat_members m
                WHERE m.chat_id = c.chat_id AND m.sender_id <> ''
                    AND m.sender_id NOT IN (SELECT sender_id FROM ids)) AS others
        FROM chats c WHERE c.chat_id IN (SELECT chat_id FROM candidates) AND NOT EXISTS (
            SELECT 1 FROM present p WHERE NOT EXISTS (
                SELECT 1 FROM ids i JOIN chat_members m ON m.sender_id = i.sender_id
                WHERE i.person = p.person AND m.chat_id = c.chat_id))
    )
    SELECT (SELECT audience FROM policy) AS policy,
        (SELECT person FROM asker) AS asker,
        ARRAY(SELECT sender_id FROM ids WHERE person = (SELECT person FROM asker)) AS asker_ids,
        ARRAY(SELECT person FROM members) AS members,
        ARRAY(SELECT person FROM present) AS present,
        (SELECT there FROM unnamed) AS unnamed,
        (SELECT coalesce(jsonb_agg(to_jsonb(places)), '[]') FROM places) AS places
""")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What may be shown to whom."""

    visible: Visible
    # every id of the person who asks; none when nobody is named
    asker_ids: list[str]


def seen(connection: Connection, chat_id: str, kind: str, user_id: str | None) -> Seen:
    """What may be shown in a chat when somebody, by any of their ids, asks there."""
    row = connection.execute(_SEEN, {"chat": chat_id, "user": user_id or None}).one()
    asked = audience.asked_in(chat_id, kind, row.members, unnamed=row.unnamed, asker=row.asker)
    # everybody present is in each of them: the statement found no others
    places = [
        audience.Place(
            chat_id=place["chat_id"],
            kind=place["kind"],
            persons=frozenset(row.present),
            others=place["others"],
        )
        for place in row.places
    ]
    visible = audience.visible(audience.policy_of(row.policy), asked, places)
    return Seen(visible=visible, asker_ids=list(row.asker_ids))
