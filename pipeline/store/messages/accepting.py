"""SQL of accepting: one trip to the server if possible, else step by step; and of messages that were pruned.

It bypasses SQLAlchemy, which would be most of what a message costs, and uses psycopg on the same connection.
"""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text

from pipeline.store import numbers
from pipeline.store.chats.chat_languages import DECLARED
from pipeline.store.chats.chats import DESCRIBED, Chat, described
from pipeline.store.connections.engines import driver_of
from pipeline.store.connections.statements import arrays, column
from pipeline.store.connections.trips import Statement
from pipeline.store.erasure.suppression import FORGETTING
from pipeline.store.jobs.jobs import AGAIN
from pipeline.store.messages.edits import sized
from pipeline.store.messages.message_rows import waits
from pipeline.store.operations.counters import SLOT
from schemas.bots import platform_of
from schemas.errors import Retryable
from schemas.kinds import INGEST
from schemas.languages import AUTO
from schemas.masking import MASKED
from schemas.messages import MAX_POSITION, ChatIn, MessageIn
from schemas.sessions import key_of, number_of

AHEAD = timedelta(minutes=5)
"""How far a sender's clock may run ahead; a later message counts as sent when it came."""

# What `Database.tenant` and `suppression.lock` run one after the other.
_BEGIN = f"""
    SELECT set_config('app.tenant_id', %(tenant)s, true), set_config('app.chats', %(only_chats)s, true),
        pg_advisory_xact_lock_shared(hashtextextended(%(tenant)s, {FORGETTING})),
        pg_advisory_xact_lock_shared(hashtextextended(%(chat)s, hashtextextended(%(tenant)s, {FORGETTING})))
"""
_CHAT = [field.name for field in fields(Chat)]
# A statement of its own: it sees what was committed while the locks were waited for.
_HOLD = f"""
    SELECT (SELECT key FROM tenant_keys) AS key, c.*
    FROM (SELECT) always LEFT JOIN LATERAL (
        SELECT {", ".join(_CHAT)} FROM chats WHERE chat_id = %(chat)s FOR KEY SHARE) c ON true
"""
# Fields that a description leaves out keep their stored values.
_AS_DESCRIBED = " AND ".join(
    f"{name} = coalesce(CAST(%({name})s AS {'boolean' if name == 'memory' else 'text'}), {name})"
    for name in DESCRIBED
    if name != "language"
)
_LANGUAGE_AS_DESCRIBED = f"""CASE WHEN CAST(%(language)s AS text) IS NULL THEN true
    WHEN %(language)s = '{AUTO}' THEN language_by IS DISTINCT FROM '{DECLARED}'
    ELSE language = %(language)s AND language_by = '{DECLARED}' END"""
# Messages of one instant that one without a position comes after: more than are stored at once.
_LATEST = 256
_AHEAD = f"interval '{AHEAD.total_seconds():.0f} seconds'"
# A clock that runs ahead would keep a session open: such a time is stored as the time of arrival.
# An edit that came before its message is applied to it if its sender may; none can come meanwhile, as the chat is held.
# A message that is there is left out first, as the trigger would read its words; two at once meet in the constraint.
# Jobs, then counters: each reads what the one before it returns, so that rows are locked in this order.
_PUT = f"""
    WITH allowed AS MATERIALIZED (
        SELECT language FROM chats
        WHERE chat_id = %(chat)s AND moved_to IS NULL AND (%(looked)s OR {_AS_DESCRIBED} AND {_LANGUAGE_AS_DESCRIBED}
            AND (SELECT key FROM tenant_keys) IS NOT DISTINCT FROM CAST(%(key)s AS bytea)
            AND NOT EXISTS (SELECT 1 FROM suppression_list WHERE hash = ANY(CAST(%(hashes)s AS bytea[])))
            AND NOT EXISTS (SELECT 1 FROM changed_numbers
                WHERE id = ANY(CAST(%(numbers)s AS text[])) AND until >= CAST(%(earliest)s AS timestamptz)))
    ), edits AS (
        DELETE FROM pending_changes USING allowed WHERE chat_id = %(chat)s AND external_id = ANY(%(externals)s)
        RETURNING external_id, sender_id, content, token_count, edited_at, original_bytes
    ), given AS (
        SELECT m.*, allowed.language, edits.edited_at, coalesce(edits.content, m.said) AS content,
            CASE WHEN follows THEN least({MAX_POSITION}, coalesce((
                SELECT max(position) FROM (SELECT position FROM messages s
                    WHERE s.chat_id = %(chat)s AND s.session_key = m.session_key AND s.sent_at = m.sent_at
                    ORDER BY id DESC LIMIT {_LATEST}) AS latest), -1)
                + row_number() OVER (PARTITION BY sent_at, follows ORDER BY number)) ELSE position END AS place,
            coalesce(edits.token_count, m.tokens) AS token_count, sent_at > now() + {_AHEAD} AS ahead,
            CASE WHEN edits.content IS NULL THEN metadata ELSE {sized("metadata", "edits.original_bytes")} END AS kept
        FROM ROWS FROM (jsonb_to_recordset(%(messages)s) AS (
            external_id text, sender_id text, sender_name text, role text, said text, sent_at timestamptz,
            position integer, follows boolean, agent_id text, session_key text, metadata jsonb, tokens integer,
            reply_to text, thread text)) WITH ORDINALITY AS m (
            external_id, sender_id, sender_name, role, said, sent_at, position, follows, agent_id, session_key,
            metadata, tokens, reply_to, thread, number)
        CROSS JOIN allowed LEFT JOIN LATERAL (
            SELECT * FROM edits e WHERE e.external_id = m.external_id AND e.sender_id IN ('', m.sender_id)
            ORDER BY e.edited_at DESC LIMIT 1) AS edits ON true
    ), stored AS (
        INSERT INTO messages (tenant_id, chat_id, external_id, session_key, sender_id, sender_name, agent_id,
            role, content, token_count, sent_at, position, edited_at, revision, language, metadata, reply_to, thread)
        SELECT %(tenant)s, %(chat)s, external_id, session_key, sender_id, sender_name, agent_id,
            role, content, token_count, CASE WHEN ahead THEN now() ELSE sent_at END, place, edited_at,
            CASE WHEN edited_at IS NULL THEN 1 ELSE 2 END, language,
            CASE WHEN ahead THEN kept || jsonb_build_object('original_sent_at', sent_at) ELSE kept END,
            nullif(reply_to, ''), nullif(thread, '')
        FROM given WHERE NOT EXISTS (SELECT FROM messages m
            WHERE m.chat_id = %(chat)s AND m.external_id = given.external_id OFFSET 0)
        ORDER BY external_id COLLATE "C"
        ON CONFLICT (tenant_id, chat_id, external_id) DO NOTHING
        RETURNING id, content
    ), arrived AS (
        INSERT INTO arrivals (tenant_id, chat_id, message_id, priority)
        SELECT %(tenant)s, %(chat)s, id, %(priority)s FROM stored
        RETURNING message_id
    ), enqueued AS (
        INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at, trace_id)
        SELECT %(tenant)s, '{INGEST}', %(chat)s, hashtext(%(chat)s) & 32767, %(priority)s, now(), %(trace)s
        FROM arrived HAVING count(*) > 0 OR %(closing)s
        {AGAIN}
        RETURNING key
    ), counted AS (
        INSERT INTO daily_counters (tenant_id, day, name, slot, value)
        SELECT %(tenant)s, (now() AT TIME ZONE 'UTC')::date, name, {SLOT}, value
        FROM allowed CROSS JOIN (SELECT count(*) FROM enqueued) AS before
            CROSS JOIN (SELECT count(*) AS new FROM arrived) AS arrivals
            CROSS JOIN LATERAL (VALUES ('messages_accepted', new),
                ('texts_masked', (SELECT count(*) FROM stored WHERE strpos(content, '{MASKED}') > 0)),
                ('messages_known', cardinality(CAST(%(externals)s AS text[])) - new),
                ('left_out:' || %(source)s || ':not_theirs', (
                    SELECT count(*) FROM edits e JOIN given g USING (external_id)
                    WHERE e.sender_id NOT IN ('', g.sender_id)))) AS figure (name, value)
        WHERE value > 0 ORDER BY name
        ON CONFLICT (tenant_id, day, name, slot) DO UPDATE SET value = daily_counters.value + excluded.value
    )
    SELECT (SELECT count(*) FROM arrived), EXISTS (SELECT FROM allowed)
"""


def begin(
    connection: Connection, tenant_id: str, chat_id: str, only_chats: str
) -> tuple[bytes | None, Chat | None]:
    """Begin to accept; return `(key of the tenant's suppression list, chat)`, each None if there is none yet.

    First of a transaction that serves no tenant yet (`Database.undecided`). Forgetting waits from now on, and so does
    `chats.lock_exclusively`; placing goes on.
    """
    driver = driver_of(connection)
    with driver.pipeline():
        driver.execute(_BEGIN, {"tenant": tenant_id, "chat": chat_id, "only_chats": only_chats})
        held = driver.execute(_HOLD, {"chat": chat_id})
    return _as_held(held)


def hold(connection: Connection, chat_id: str) -> Chat | None:
    """Lock a chat that was created or changed in this transaction as `begin` does; None if there is none."""
    _, chat = _as_held(driver_of(connection).execute(_HOLD, {"chat": chat_id}))
    return chat


def put(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    messages: Sequence[tuple[MessageIn, int]],
    *,
    closing: bool,
    priority: int,
    trace_id: str | None,
) -> int:
    """Store messages `(message, tokens)` as arrivals with a job that places them; return how many were new.

    The job is enqueued without any, too, when a session is `closing`. The chat is held, and none of the messages is
    suppressed; edits that came before their messages are applied to them.
    """
    values = _values(tenant_id, ChatIn(chat_id=chat_id), messages, priority, trace_id)
    values |= {"looked": True, "closing": closing}
    new, held = driver_of(connection).execute(_PUT, values).fetchone() or (0, False)
    if not held:
        raise Retryable("the chat was removed while its messages were stored")
    return int(new)


def put_at_once(
    tenant_id: str,
    chat: ChatIn,
    messages: Sequence[tuple[MessageIn, int]],
    *,
    key: bytes | None,
    hashes: Sequence[bytes],
    priority: int,
    trace_id: str | None,
    only_chats: str,
) -> list[Statement]:
    """Return the statements of `begin` and `put` for one trip (`Database.one_trip`).

    Its row is `(new messages, whether they were stored)`. They are not if there is no such chat, it has another id
    now, or it is not as described; if the tenant's key is not `key`; if one of the `hashes` is suppressed; if a number
    has moved on since.
    """
    values = _values(tenant_id, chat, messages, priority, trace_id)
    values |= {"key": key, "hashes": list(hashes), "only_chats": only_chats}
    return [(_BEGIN, values), (_HOLD, values), (_PUT, values)]


def _values(
    tenant_id: str,
    chat: ChatIn,
    messages: Sequence[tuple[MessageIn, int]],
    priority: int,
    trace_id: str | None,
) -> dict[str, Any]:
    """Return the parameters of `_PUT` for messages that close no session and are not looked at."""
    rows = [
        {
            **message.model_dump(mode="json", exclude=_ELSEWHERE),
            "session_key": key_of(message.session_key, message.thread),
            "said": message.content,
            # neither a position nor a number orders it among messages of the same time, so it comes after them
            "follows": "position" not in message.model_fields_set and number_of(message.external_id) < 0,
            "tokens": tokens,
        }
        for message, tokens in messages
    ]
    return {
        **dict.fromkeys(DESCRIBED),
        **described(chat),
        "tenant": tenant_id,
        "chat": chat.chat_id,
        "messages": Jsonb(rows),
        "externals": [message.external_id for message, _ in messages],
        "numbers": [numbers.of_chat(chat.chat_id)[0], *{message.sender_id for message, _ in messages}],
        "earliest": min((message.sent_at for message, _ in messages), default=None),
        "source": platform_of(chat.chat_id),
        "priority": priority,
        "trace": trace_id,
        **_NOT_LOOKED_AT,
    }


_ELSEWHERE = {"closes_session", "content"}
_NOT_LOOKED_AT: dict[str, Any] = {"looked": False, "key": None, "hashes": [], "closing": False}


def _as_held(cursor: "psycopg.Cursor[Any]") -> tuple[bytes | None, Chat | None]:
    key, *columns = cursor.fetchone() or (None, None)
    chat = None if columns[0] is None else Chat(**dict(zip(_CHAT, columns, strict=True)))
    return (None if key is None else bytes(key)), chat


# Of messages that are not stored and would be pruned, those inside a session that has fewer messages than it counts.
# Sessions of a key do not overlap: the last one that begins before a message is its own.
_PRUNED = text(f"""
    WITH missing AS MATERIALIZED (
        SELECT external_id, session_key, sent_at
        FROM unnest(CAST(:externals AS text[]), CAST(:keys AS text[]), CAST(:times AS timestamptz[]))
            AS given (external_id, session_key, sent_at)
        WHERE (sent_at < now() - CAST(:age AS interval)
                OR CAST(:per_chat AS bigint) IS NOT NULL AND sent_at < (
                    SELECT m.sent_at FROM messages m WHERE m.chat_id = :chat
                    ORDER BY m.sent_at DESC OFFSET CAST(:per_chat AS bigint) - 1 LIMIT 1))
            AND NOT EXISTS (
                SELECT 1 FROM messages m WHERE m.chat_id = :chat AND m.external_id = given.external_id)
    ), inside AS MATERIALIZED (
        SELECT missing.external_id, own.* FROM missing CROSS JOIN LATERAL (
            SELECT s.id, s.session_key, s.started_at, s.ended_at, s.message_count FROM conversation_sessions s
            WHERE s.chat_id = :chat AND s.session_key = missing.session_key AND s.status <> 'merged'
                AND s.started_at <= missing.sent_at
            ORDER BY s.started_at DESC LIMIT 1) own
        WHERE own.ended_at >= missing.sent_at
    ), pruned AS (
        SELECT id FROM (SELECT DISTINCT id, session_key, started_at, ended_at, message_count FROM inside) s
        WHERE s.message_count > (
            SELECT count(*) FROM messages m
            WHERE m.chat_id = :chat AND m.session_key = s.session_key
                AND m.sent_at BETWEEN s.started_at AND s.ended_at AND NOT {waits("m")})
    )
    SELECT external_id FROM inside WHERE id IN (SELECT id FROM pruned)
""")


class Sent(NamedTuple):
    """A message being accepted."""

    external_id: str
    session_key: str
    sent_at: datetime


def find_pruned(
    connection: Connection,
    chat_id: str,
    sent: Sequence[Sent],
    *,
    age: timedelta | None,
    per_chat: int | None,
) -> set[str]:
    """Return the ids of those that are beyond a limit, and not stored though their session counts more messages."""
    values = {"chat": chat_id, "age": age, "per_chat": per_chat}
    return set(column(connection, _PRUNED, **arrays("externals keys times", sent), **values))
