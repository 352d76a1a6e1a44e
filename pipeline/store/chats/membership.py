"""SQL of the members of a chat, and of other chats with the same members."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import column, holds, number, run

UNKNOWN = ""

_NOTE_UNKNOWN = text("""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT :tenant, chat_id, :unknown FROM chats WHERE chat_id = :chat ON CONFLICT DO NOTHING
""")
_DROP_OTHERS = text("DELETE FROM chat_members WHERE chat_id = :chat AND NOT sender_id = ANY(:senders)")
_ADD = text("""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT :tenant, :chat, sender FROM unnest(CAST(:senders AS text[])) AS sender ORDER BY sender
    ON CONFLICT DO NOTHING
""")
_SET_MODERATORS = text("""
    UPDATE chat_members SET moderates = sender_id = ANY(:people)
    WHERE chat_id = :chat AND moderates <> (sender_id = ANY(:people))
        AND (sender_id = ANY(:people) OR CAST(:former AS text[]) IS NULL OR sender_id = ANY(:former))
""")
_MODERATES = text("SELECT true FROM chat_members WHERE chat_id = :chat AND sender_id = :sender AND moderates")
_MESSAGES = """SELECT 1 FROM messages m
        WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id AND m.sender_id = c.sender_id"""
IS_SILENT = f"NOT EXISTS ({_MESSAGES})"
"""SQL condition that no message by member `c` is left in the chat."""
_REMOVE = text(f"""
    DELETE FROM chat_members c WHERE chat_id = :chat AND sender_id = ANY(:senders)
        AND NOT EXISTS ({_MESSAGES} AND m.sent_at > :at)
""")
_NOTE_CHANGES = text("""
    INSERT INTO member_changes (tenant_id, chat_id, sender_id, at, joined)
    SELECT :tenant, :chat, sender, :at, :joined FROM unnest(CAST(:senders AS text[])) AS sender
    ON CONFLICT DO NOTHING
""")
_DROP_OLD_CHANGES = text("""
    DELETE FROM member_changes WHERE chat_id = :chat AND at < now() - make_interval(days => :days)
""")
_CHANGES = text("""
    SELECT DISTINCT ON (sender_id) sender_id, joined FROM member_changes
    WHERE chat_id = :chat AND at >= :start AND at < :until ORDER BY sender_id, at DESC
""")
_REJOIN = text("UPDATE chats SET apart = false WHERE chat_id = :chat AND apart")
_OF_CHAT = text("SELECT sender_id FROM chat_members WHERE chat_id = :chat ORDER BY sender_id")
_CHATS_OF = text("SELECT DISTINCT chat_id FROM chat_members WHERE sender_id = ANY(:senders) ORDER BY chat_id")
_CHATS_TO_UNNAME = text(f"""
    SELECT DISTINCT chat_id FROM chat_members c WHERE sender_id = ANY(:senders) AND {IS_SILENT} ORDER BY chat_id
""")
_UNNAME = text(f"""
    WITH gone AS (
        DELETE FROM chat_members c WHERE sender_id <> :unknown AND chat_id = :chat
            AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders)) AND {IS_SILENT}
        RETURNING tenant_id, chat_id
    ), noted AS (
        INSERT INTO chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, CAST(:unknown AS text) FROM gone ON CONFLICT DO NOTHING
    )
    SELECT count(*) FROM gone
""")
# Start from a member with few chats, and give up each of these chats at the first person who is missing there. Without
# `OFFSET 0` Postgres reads all members of all chats instead.
PRESENT = """
    WITH policy AS (
        SELECT (SELECT settings->>'audience' FROM tenants) AS audience,
            CAST(nullif(current_setting('app.chats', true), '') AS jsonb) AS only_chats
    ), asker AS (
        SELECT coalesce((SELECT user_id FROM user_senders WHERE sender_id = :asker), :asker) AS person
        WHERE CAST(:asker AS text) IS NOT NULL
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
            AND coalesce((SELECT only_chats FROM policy) ? m.chat_id, true)
    ), places AS (
        SELECT c.chat_id, c.kind, EXISTS (SELECT 1 FROM chat_members m
                WHERE m.chat_id = c.chat_id AND m.sender_id <> ''
                    AND m.sender_id NOT IN (SELECT sender_id FROM ids)) AS others,
            ARRAY(SELECT i.person FROM ids i
                JOIN chat_members m ON m.chat_id = c.chat_id AND m.sender_id = i.sender_id) AS persons
        FROM chats c WHERE c.chat_id IN (SELECT chat_id FROM candidates)
            AND (NOT c.apart OR (SELECT only_chats FROM policy) IS NOT NULL) AND NOT c.emptying AND NOT EXISTS (
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
        coalesce((SELECT apart FROM chats WHERE chat_id = :chat), false) AS apart,
        (SELECT only_chats FROM policy) AS only_chats,
        (SELECT coalesce(jsonb_agg(to_jsonb(places)), '[]') FROM places) AS places
"""
"""SQL of `Present`: the members of `:chat` and `:asker`, by any of their ids, and other chats with all of them."""
_PRESENT = text(PRESENT)
MEMBERS_NAMED = 500
"""Members of all chats together whose names are looked up."""


def member_names(chats: str) -> str:
    """Return SQL of `Member`: those of the chats that are an expression, those of `:chat` first.

    A name of each, whichever, and all that the latest messages of `:chat` show: people seldom change theirs. Who is in
    `:chat` is not looked up in the other chats, where all of them are.
    """
    return f"""
        WITH here AS (
            SELECT chat_id, sender_id FROM chat_members WHERE chat_id = ANY({chats}) AND sender_id <> ''
                AND (chat_id = :chat OR sender_id NOT IN (SELECT sender_id FROM chat_members WHERE chat_id = :chat))
            ORDER BY chat_id <> :chat, chat_id, sender_id LIMIT {MEMBERS_NAMED}
        ), spoken AS (
            SELECT DISTINCT sender_id, sender_name FROM (
                SELECT sender_id, sender_name FROM messages WHERE chat_id = :chat
                ORDER BY sent_at DESC FETCH FIRST 200 ROWS WITH TIES
            ) latest
        ), members AS (
            SELECT m.chat_id, coalesce(s.user_id, m.sender_id) AS person, m.sender_id, of.sender_name
            FROM here m LEFT JOIN user_senders s ON s.sender_id = m.sender_id
            LEFT JOIN LATERAL (SELECT sender_name FROM messages
                WHERE sender_id = m.sender_id AND chat_id = m.chat_id LIMIT 1) of ON true
        )
        SELECT named.*, ARRAY(SELECT sender_id FROM user_senders s WHERE s.user_id = named.person) AS linked FROM (
            SELECT chat_id, person, sender_id, sender_name FROM members
            UNION SELECT :chat, person, sender_id, spoken.sender_name FROM members JOIN spoken USING (sender_id)
        ) named
        ORDER BY person, sender_id, chat_id <> :chat, sender_name, chat_id
    """


_NAMED = text(member_names("ARRAY[:chat]"))


def note_unknown(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Record that a chat has a member whose name is not kept, if the chat exists."""
    run(connection, _NOTE_UNKNOWN, tenant=tenant_id, chat=chat_id, unknown=UNKNOWN)


def replace(connection: Connection, tenant_id: str, chat_id: str, senders: Sequence[str]) -> None:
    """Replace the members of a chat; `UNKNOWN` may be among them."""
    run(connection, _DROP_OTHERS, chat=chat_id, senders=senders)
    add(connection, tenant_id, chat_id, senders)


def add(connection: Connection, tenant_id: str, chat_id: str, senders: Sequence[str]) -> None:
    """Add members to a chat; `UNKNOWN` may be among them."""
    run(connection, _ADD, tenant=tenant_id, chat=chat_id, senders=senders)


def rejoin(connection: Connection, chat_id: str) -> None:
    """Stop keeping a chat apart: somebody who may has said who is there."""
    run(connection, _REJOIN, chat=chat_id)


def is_apart(connection: Connection, chat_id: str) -> bool:
    """Tell whether a key for some chats has said who is in a chat."""
    return holds(connection, "SELECT apart FROM chats WHERE chat_id = :chat", chat=chat_id)


def remove(connection: Connection, chat_id: str, senders: Sequence[str], at: datetime) -> None:
    """Remove these members of a chat who have said nothing there after a time."""
    run(connection, _REMOVE, chat=chat_id, senders=senders, at=at)


CHANGES_DAYS = 90
"""Days that it stays known who joined a chat and who left."""


def note_changes(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    senders: Sequence[str],
    at: datetime,
    *,
    joined: bool,
) -> None:
    """Record that these people joined a chat at a time, or left it; what is too old goes."""
    values = {"chat": chat_id, "senders": senders, "at": at, "joined": joined}
    run(connection, _NOTE_CHANGES, tenant=tenant_id, **values)
    run(connection, _DROP_OLD_CHANGES, chat=chat_id, days=CHANGES_DAYS)


def changes(connection: Connection, chat_id: str, start: datetime, until: datetime) -> dict[str, bool]:
    """Return who joined a chat in a time and is still there (True), and who left, by id."""
    rows = run(connection, _CHANGES, chat=chat_id, start=start, until=until)
    return {row.sender_id: row.joined for row in rows}


def forget_changes(connection: Connection, senders: Sequence[str]) -> None:
    """Delete when these people joined chats and left them."""
    run(connection, "DELETE FROM member_changes WHERE sender_id = ANY(:senders)", senders=senders)


def set_moderators(
    connection: Connection, chat_id: str, people: Sequence[str], former: Sequence[str] | None
) -> None:
    """Note which members may delete what others wrote, and that `former` may not (None: nobody else may)."""
    run(connection, _SET_MODERATORS, chat=chat_id, people=people, former=former)


def moderates(connection: Connection, chat_id: str, sender: str) -> bool:
    """Tell whether a member of a chat may delete what others wrote."""
    return holds(connection, _MODERATES, chat=chat_id, sender=sender)


def of_chat(connection: Connection, chat_id: str) -> list[str]:
    """Return the senders that are in a chat."""
    return column(connection, _OF_CHAT, chat=chat_id)


def chats_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """Return the chats that these senders are in."""
    return column(connection, _CHATS_OF, senders=senders)


def chats_to_unname(connection: Connection, senders: Sequence[str]) -> list[str]:
    """Return the chats that list these senders as members though no message by them is left there."""
    return column(connection, _CHATS_TO_UNNAME, senders=senders)


def unname(connection: Connection, chat_id: str, senders: Sequence[str] | None = None) -> int:
    """Remove members of a chat, among these senders or all, with no message left there; return how many.

    They may be there still, so that the chat records somebody unknown instead. To be called while nothing is accepted
    in the chat.
    """
    return number(connection, _UNNAME, unknown=UNKNOWN, senders=senders, chat=chat_id)


@dataclass(frozen=True, kw_only=True)
class Visible:
    """The chats whose memories may be shown in one place."""

    everywhere: bool
    chats: frozenset[str]
    # whether also what was learned in no chat, unless it is everybody's, as the organization's is
    unplaced: bool = True

    def shows(self, learned_in: str | None, also_in: Collection[str] = (), *, scope: str = "") -> bool:
        """Tell whether something of a scope learned in one of these chats, or (None) in none, may be shown."""
        if learned_in is None:
            return self.everywhere or self.unplaced or scope == "organization"
        return self.everywhere or not self.chats.isdisjoint({learned_in, *also_in})

    def source(self, learned_in: str | None, also_in: Collection[str], here: str | None) -> str | None:
        """Return the chat to name as the source of something learned: this one, else the first that may be shown."""
        if here is not None and here in {learned_in, *also_in}:
            return here
        places = (place for place in (learned_in, *also_in) if place is not None)
        return next((place for place in places if self.everywhere or place in self.chats), None)

    def parameters(self) -> dict[str, Any]:
        """Return the fields as parameters of statements."""
        return {"everywhere": self.everywhere, "chats": sorted(self.chats), "unplaced": self.unplaced}


EVERYWHERE = Visible(everywhere=True, chats=frozenset())
"""All chats of the tenant."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The chats that an asker may see memories of."""

    visible: Visible
    # every id of the asker; empty if nobody is named
    asker_ids: list[str]
    # whether the asker is alone with the bot, in a direct chat or a thread
    alone: bool = False


class Present(NamedTuple):
    """The members of a chat and the asker, and other chats with all of them."""

    # of the tenant's settings
    policy: str | None
    # the asker as a person, with all their ids
    asker: str | None
    asker_ids: Sequence[str]
    # persons
    members: Sequence[str]
    # whether there is a member whose name is not kept
    unnamed: bool
    # whether a key for some chats has said who is there
    apart: bool
    # the chats of the asking key; None: all
    only_chats: Sequence[str] | None
    # of each its `chat_id`, `kind`, `persons`, and whether there are `others`
    places: Sequence[Mapping[str, Any]]


class Member(NamedTuple):
    """A member of a chat, by one of their names."""

    chat_id: str
    # the user, with the senders that are linked to it
    person: str
    sender_id: str
    # None or empty for a member who has never written, or only without a name
    sender_name: str | None
    linked: Sequence[str]


def names(connection: Connection, chat_id: str) -> list[Member]:
    """Return the members of a chat by each of their names."""
    return [Member(*row) for row in run(connection, _NAMED, chat=chat_id)]


def present(connection: Connection, chat_id: str, user_id: str | None) -> Present:
    """Return the members of a chat and the asker, by any of their ids, and other chats with all of them."""
    return Present(*run(connection, _PRESENT, chat=chat_id, asker=user_id or None).one())
