"""SQL of audiences: who is in a chat, and in which other chats all of them are.

One statement, so that links that change meanwhile are seen by all of it or by nothing.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

# Of those who are here somebody with few chats is taken, and each of these chats is left at the first who is not
# there. Without `OFFSET 0` Postgres reads all members of all chats instead.
_PRESENT = text("""
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
    ), start AS MATERIALIZED (
        SELECT i.person FROM ids i JOIN chat_members m ON m.sender_id = i.sender_id
        WHERE i.person IN (SELECT person FROM present LIMIT 8)
        GROUP BY i.person ORDER BY count(*), i.person LIMIT 1
    ), candidates AS MATERIALIZED (
        SELECT DISTINCT m.chat_id FROM ids i JOIN chat_members m ON m.sender_id = i.sender_id
        WHERE i.person = (SELECT person FROM start) AND m.chat_id <> :chat
            AND coalesce((SELECT audience FROM policy), 'strict') = 'strict'
    ), places AS (
        SELECT c.chat_id, c.kind, EXISTS (SELECT 1 FROM chat_members m
                WHERE m.chat_id = c.chat_id AND m.sender_id <> ''
                    AND m.sender_id NOT IN (SELECT sender_id FROM ids)) AS others,
            ARRAY(SELECT i.person FROM ids i
                JOIN chat_members m ON m.chat_id = c.chat_id AND m.sender_id = i.sender_id) AS persons
        FROM chats c WHERE c.chat_id IN (SELECT chat_id FROM candidates) AND NOT EXISTS (
            SELECT 1 FROM present p
            WHERE NOT EXISTS (SELECT 1 FROM chat_members m
                    WHERE m.chat_id = c.chat_id AND m.sender_id = p.person OFFSET 0)
                AND NOT EXISTS (SELECT 1 FROM user_senders s
                    JOIN chat_members m ON m.chat_id = c.chat_id AND m.sender_id = s.sender_id
                    WHERE s.user_id = p.person OFFSET 0)
            OFFSET 0)
    )
    SELECT (SELECT audience FROM policy) AS policy,
        (SELECT person FROM asker) AS asker,
        ARRAY(SELECT sender_id FROM ids WHERE person = (SELECT person FROM asker)) AS asker_ids,
        ARRAY(SELECT person FROM members) AS members,
        (SELECT there FROM unnamed) AS unnamed,
        (SELECT coalesce(jsonb_agg(to_jsonb(places)), '[]') FROM places) AS places
""")


@dataclass(frozen=True, kw_only=True)
class Visible:
    """The chats whose memories may be shown in one place."""

    everywhere: bool
    chats: frozenset[str]

    def shows(self, learned_in: str | None) -> bool:
        """Whether what was learned there may be shown; None was learned in no chat, and is anybody's."""
        return learned_in is None or self.everywhere or learned_in in self.chats


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What may be shown to whom."""

    visible: Visible
    # every id of the person who asks; none when nobody is named
    asker_ids: list[str]


def present(connection: Connection, chat_id: str, user_id: str | None) -> Row[Any]:
    """Who is in a chat beside whoever asks, by any of their ids, and the other chats where all of them are."""
    return connection.execute(_PRESENT, {"chat": chat_id, "user": user_id or None}).one()
