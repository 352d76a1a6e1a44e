"""SQL of messages and arrivals, and of the cues in their texts."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, column, number, run
from pipeline.text.cues.message_cues import LONGEST_READ, MessageCues
from schemas.kinds import INGEST
from schemas.sessions import Message, RepliedTo, Stamp

# All but `answered`, which is looked up.
COLUMNS = ", ".join(Message._fields[:-1])
# Messages of one instant by their position, then by their ids where these are numbers, then as they were stored: what
# `schemas.sessions.Stamp` compares. Indexes give the times in order, so no more than one instant's are sorted.
# as `schemas.sessions.number_of` computes it
_NUMBER = """
    CASE WHEN {0}external_id ~ '(^|/)[0-9]+$' THEN CAST(substring({0}external_id FROM '[0-9]+$') AS numeric) ELSE -1 END
"""
_ORDER = f"{{0}}sent_at, {{0}}position, {_NUMBER}, {{0}}id"


def place_of(message: str) -> str:
    """Return SQL of what `ORDER` compares, of one of two messages."""
    return _ORDER.format(f"{message}.")


def newest_first(order: str) -> str:
    """Return the reverse of an order."""
    return order.replace(", ", " DESC, ") + " DESC"


ORDER = _ORDER.format("")
NEWEST_FIRST = newest_first(ORDER)


def waits(message: str) -> str:
    """Return the SQL condition that a message waits for its place in a session."""
    return f"EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = {message}.tenant_id AND a.message_id = {message}.id)"


def arrival_columns(priority: str) -> str:
    """Return the columns of `Arrival`, of the messages `m`."""
    return f"""m.id, m.chat_id, {priority}, m.session_key, m.sent_at,
        coalesce(nullif(m.sender_name, ''), m.sender_id), m.token_count, length(m.tsv),
        m.role, left(m.content, {LONGEST_READ})"""


# The first of each chat by the index, in turns, so that no chat crowds out the others.
_ARRIVALS = text(f"""
    WITH waiting AS (
        SELECT a.chat_id, a.message_id, a.priority,
            row_number() OVER (PARTITION BY a.chat_id ORDER BY a.priority, a.message_id) AS turn,
            count(*) OVER (PARTITION BY a.chat_id) AS known
        FROM unnest(CAST(:chats AS text[])) AS chat (id) CROSS JOIN LATERAL (
            SELECT chat_id, message_id, priority FROM arrivals
            WHERE chat_id = chat.id AND quarantined_at IS NULL
            ORDER BY priority, message_id LIMIT CAST(:limit AS bigint) + 1) a
    ), dealt AS (
        SELECT * FROM waiting ORDER BY turn, priority, message_id LIMIT :limit
    )
    SELECT {arrival_columns("dealt.priority")}, dealt.known
    FROM dealt JOIN messages m ON m.id = dealt.message_id
    ORDER BY m.sent_at
""")
_ARRIVAL = text(f"""
    SELECT {arrival_columns("a.priority")}
    FROM arrivals a JOIN messages m ON m.tenant_id = a.tenant_id AND m.id = a.message_id
    WHERE a.message_id = :id AND a.quarantined_at IS NULL
""")
_QUARANTINE = text("""
    UPDATE arrivals SET quarantined_at = now(), error = :error, trace_id = :trace
    WHERE chat_id = :chat AND message_id = :id
""")
_WAITING = text(f"""
    SELECT count(*) FROM (
        SELECT 1 FROM arrivals
        WHERE quarantined_at IS NULL AND chat_id <> ALL(ARRAY(
            SELECT key FROM jobs WHERE tenant_id = :tenant AND kind = '{INGEST}' AND dead_at IS NOT NULL))
        LIMIT :limit
    ) w
""")
_TIMES = text(f"""
    SELECT sent_at, coalesce(nullif(sender_name, ''), sender_id), token_count
    FROM messages m
    WHERE chat_id = :chat AND session_key = :key AND sent_at BETWEEN :start AND :end
        AND NOT {waits("m")}
    ORDER BY sent_at
""")
_WITHIN = f"""SELECT {COLUMNS} FROM messages
    WHERE chat_id = :chat AND session_key = :key AND sent_at BETWEEN :start AND :end"""
_IN_RANGE = text(f"{_WITHIN} ORDER BY {ORDER} LIMIT :limit")
_BEHIND = text(f"{_WITHIN} AND ({ORDER}) > (:start, :position, :number, :id) ORDER BY {ORDER} LIMIT :limit")
_COUNT_WITHIN = text(f"SELECT count(*) FROM ({_WITHIN}) AS within")
_BY_ID = text(f"SELECT {COLUMNS} FROM messages WHERE id = ANY(:ids)")
# a pasted document would outweigh the rest of the chat
_SAID_BEFORE = text(f"""
    SELECT coalesce(nullif(sender_name, ''), sender_id), left(content, 500) FROM messages
    WHERE chat_id = :chat AND sent_at < :until AND role IN ('user', 'assistant')
    ORDER BY {NEWEST_FIRST} LIMIT :limit
""")
_SOME_EXTERNAL_IDS = text(
    "SELECT external_id FROM messages WHERE chat_id = :chat ORDER BY sent_at DESC LIMIT :limit"
)


class Arrival(NamedTuple):
    """A message that waits for its place."""

    message_id: int
    chat_id: str
    # 0: live, 1: of an import
    priority: int
    session_key: str
    sent_at: datetime
    speaker: str
    token_count: int
    lexeme_count: int
    role: str
    # the part of its text that is read for its cues
    text: str

    @property
    def key(self) -> str:
        """The key of its jobs."""
        return f"message:{self.message_id}"


def arrivals(
    connection: Connection, chat_ids: Sequence[str], limit: int
) -> tuple[list[Arrival], frozenset[str]]:
    """Return `(arrivals, chats)`: up to `limit` messages of these chats without a place, and the chats with more.

    Of each chat the live ones first and then as they were accepted; all by their time.
    """
    rows = run(connection, _ARRIVALS, chats=chat_ids, limit=limit).all()
    arrivals = [Arrival(*row[:-1]) for row in rows]
    taken = Counter(arrival.chat_id for arrival in arrivals)
    return arrivals, frozenset(row.chat_id for row in rows if row.known > taken[row.chat_id])


def arrival(connection: Connection, message_id: int) -> list[Arrival]:
    """Return a message if it is not placed yet."""
    return [Arrival(*row) for row in run(connection, _ARRIVAL, id=message_id)]


def forget_arrivals(connection: Connection, message_ids: Sequence[int]) -> None:
    """Delete exactly these arrivals: they are placed."""
    run(connection, "DELETE FROM arrivals WHERE message_id = ANY(:ids)", ids=message_ids)


def quarantine(
    connection: Connection, chat_id: str, message_id: int, error: str, trace_id: str | None
) -> None:
    """Quarantine an arrival: it is not placed until it is released."""
    run(connection, _QUARANTINE, chat=chat_id, id=message_id, error=error, trace=trace_id)


def waiting(connection: Connection, tenant_id: str, limit: int) -> int:
    """Count accepted messages that workers can place, up to `limit`: not quarantined ones, nor those of dead jobs."""
    return number(connection, _WAITING, tenant=tenant_id, limit=limit)


def times(
    connection: Connection, chat_id: str, session_key: str, start: datetime, end: datetime
) -> list[tuple[datetime, str, int]]:
    """Return `(time, speaker, tokens)` of every placed message in a range, by time."""
    rows = run(connection, _TIMES, chat=chat_id, key=session_key, start=start, end=end)
    return [(at, speaker, tokens) for at, speaker, tokens in rows]


def in_range(
    connection: Connection,
    chat_id: str,
    session_key: str,
    start: datetime,
    end: datetime,
    *,
    limit: int,
    after: Stamp | None = None,
) -> list[Message]:
    """Return a session's messages in order, up to `limit`; with `after`, those that come after it."""
    values = {"chat": chat_id, "key": session_key, "start": start, "end": end, "limit": limit}
    if after is not None:
        values |= dict(zip(("start", "position", "number", "id"), after, strict=True))
    return [as_message(row) for row in run(connection, _IN_RANGE if after is None else _BEHIND, **values)]


def count_in_range(
    connection: Connection, chat_id: str, session_key: str, start: datetime, end: datetime
) -> int:
    """Count the messages that `in_range` returns without a limit."""
    return number(connection, _COUNT_WITHIN, chat=chat_id, key=session_key, start=start, end=end)


def said_before(
    connection: Connection, chat_id: str, until: datetime, *, limit: int
) -> list[tuple[str, str]]:
    """Return the speakers and texts of a chat's latest messages before a time; of a long text, the beginning."""
    rows = run(connection, _SAID_BEFORE, chat=chat_id, until=until, limit=limit)
    return [(speaker, content) for speaker, content in rows]


def by_id(connection: Connection, ids: Iterable[int]) -> list[Message]:
    """Return these messages in no order, without those that do not exist."""
    return [as_message(row) for row in run(connection, _BY_ID, ids=list(ids))]


def answered(message: str) -> str:
    """Return SQL of `RepliedTo` as JSON, of the message that a row of `messages` answers, or null."""
    return f"""CASE WHEN {message}.reply_to IS NOT NULL THEN (
        SELECT jsonb_build_array(r.id, coalesce(nullif(r.sender_name, ''), r.sender_id), left(r.content, 200))
        FROM messages r WHERE r.tenant_id = {message}.tenant_id AND r.chat_id = {message}.chat_id
            AND r.external_id = {message}.reply_to) END"""


def some_external_ids(connection: Connection, chat_id: str, limit: int) -> list[str]:
    """Return the platform's ids of the latest messages of a chat."""
    return column(connection, _SOME_EXTERNAL_IDS, chat=chat_id, limit=limit)


# Two statements: each has an index that ends in the time.
def newest(
    *, of_key: bool, columns: str = f"{COLUMNS}, {answered('messages')} AS answered", limit: str = ":limit"
) -> str:
    """Return SQL of a chat's newest messages said before `:until`, each with the one that it answers."""
    return f"""SELECT {columns} FROM messages
        WHERE chat_id = :chat AND (CAST(:until AS timestamptz) IS NULL OR sent_at < :until)
            {"AND session_key = :key" if of_key else ""}
        ORDER BY {NEWEST_FIRST} LIMIT {limit}"""


_RECENT = text(newest(of_key=False))
_RECENT_OF_KEY = text(newest(of_key=True))


def recent(
    connection: Connection,
    chat_id: str,
    limit: int,
    session_key: str | None = None,
    until: datetime | None = None,
) -> list[Message]:
    """Return the chat's newest messages, newest first; of one session key, and said before a time, if given."""
    statement = _RECENT if session_key is None else _RECENT_OF_KEY
    values = {"chat": chat_id, "limit": limit, "key": session_key, "until": until}
    return [as_message(row) for row in run(connection, statement, **values)]


def as_message(row: Sequence[Any]) -> Message:
    """Return a row of `COLUMNS`, and of `answered` where that is read, as a value."""
    message = Message(*row)
    return message._replace(answered=RepliedTo(*message.answered)) if message.answered else message


_BETWEEN = text(f"""
    SELECT {COLUMNS} FROM messages WHERE chat_id = :chat AND sent_at >= :start AND sent_at < :until
    ORDER BY {NEWEST_FIRST} LIMIT :limit
""")
_LATEST_OF = text(f"""
    SELECT {COLUMNS} FROM messages WHERE chat_id = :chat AND sender_id = ANY(:senders) AND sent_at < :until
    ORDER BY {NEWEST_FIRST} LIMIT :limit
""")
_THEIRS = text("""
    SELECT external_id FROM messages
    WHERE chat_id = :chat AND external_id = ANY(:externals) AND sender_id = ANY(:senders)
""")


def between(
    connection: Connection, chat_id: str, start: datetime, until: datetime, limit: int
) -> list[Message]:
    """Return the newest messages of a chat in a time, placed or not, in order."""
    values = {"chat": chat_id, "start": start, "until": until, "limit": limit}
    return [as_message(row) for row in run(connection, _BETWEEN, **values)][::-1]


def latest_of(
    connection: Connection, chat_id: str, senders: Sequence[str], until: datetime, limit: int
) -> list[Message]:
    """Return the newest messages of these senders in a chat before a time, newest first."""
    values = {"chat": chat_id, "senders": senders, "until": until, "limit": limit}
    return [as_message(row) for row in run(connection, _LATEST_OF, **values)]


def theirs(
    connection: Connection, chat_id: str, external_ids: Collection[str], senders: Sequence[str]
) -> set[str]:
    """Return which of these messages of a chat these senders wrote."""
    return set(column(connection, _THEIRS, chat=chat_id, externals=list(external_ids), senders=senders))


_PUT = text("""
    INSERT INTO message_cues (tenant_id, message_id, chat_id, asks, flags)
    SELECT :tenant, message_id, chat_id, asks, flags FROM unnest(
        CAST(:ids AS bigint[]), CAST(:chats AS text[]), CAST(:asks AS real[]), CAST(:flags AS smallint[])
    ) AS read (message_id, chat_id, asks, flags) ORDER BY message_id
    ON CONFLICT (tenant_id, message_id) DO UPDATE SET asks = excluded.asks, flags = excluded.flags
""")
# Unplaced messages are read when they are placed.
_OF_SLICE = text(f"""
    SELECT id, chat_id, role, content FROM (
        SELECT tenant_id, id, chat_id, role, left(content, {LONGEST_READ}) AS content FROM messages
        WHERE chat_id = :chat AND external_id > :after ORDER BY external_id LIMIT :limit) m
    WHERE NOT {waits("m")}
""")


class MessageText(NamedTuple):
    """A message to read the cues of."""

    message_id: int
    chat_id: str
    role: str
    # the part of the text that is read
    text: str


def put_cues(connection: Connection, tenant_id: str, cues: Sequence[tuple[MessageText, MessageCues]]) -> None:
    """Store the cues of messages, replacing existing ones."""
    rows = ((message.message_id, message.chat_id, read.asks, read.flags) for message, read in cues)
    run(connection, _PUT, tenant=tenant_id, **arrays("ids chats asks flags", rows))


def texts_of_slice(connection: Connection, chat_id: str, after: str, limit: int) -> list[MessageText]:
    """Return the placed ones among a chat's next messages, by their external ids."""
    return [MessageText(*row) for row in run(connection, _OF_SLICE, chat=chat_id, after=after, limit=limit)]
