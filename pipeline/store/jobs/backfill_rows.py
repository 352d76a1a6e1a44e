"""SQL of backfills: their requests, their progress, the windows of rows they read, and the texts of such rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import number, run
from pipeline.store.operations.checks import EMBEDDABLE
from pipeline.store.sessions.rollups import MIN_SESSIONS
from schemas.backfills import Backfill, BackfillRequest
from schemas.facts import RULES
from schemas.sessions import EXTRACTIVE


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Where a kind of row keeps its texts."""

    table: str
    columns: tuple[str, ...]
    # the type of its position in a backfill, and SQL of it
    type: str = "bigint"
    id: str = "t.id"
    chat: str = "t.chat_id"
    time: str = "created_at"

    def rows(self, kind: str) -> str:
        """Return SQL of a backfill's source, with the `texts` of each row."""
        since, until = (f"CAST(:{name} AS timestamptz)" for name in ("since", "until"))
        return f"""
            SELECT {self.id} AS position, '{kind}:' || {self.id} AS key, {self.chat} AS chat, true AS missing,
                jsonb_build_array({self._listed}) AS texts
            FROM {self.table} t
            WHERE (CAST(:chat AS text) IS NULL OR {self.chat} = :chat)
                AND ({since} IS NULL OR t.{self.time} >= {since}) AND ({until} IS NULL OR t.{self.time} < {until})
        """

    @property
    def _listed(self) -> str:
        return ", ".join(f"t.{column}" for column in self.columns)


_SUMMARY = ("summary_text", "topic_tags", "decisions", "open_questions", "action_items", "entities")
TEXTS = {
    "message": Texts(table="messages", columns=("content", "metadata", "sender_name"), time="sent_at"),
    "memory": Texts(
        table="memories",
        columns=("content", "metadata", "subject", "attribute", "value"),
        type="uuid",
        chat="t.learned_in",
    ),
    "session": Texts(
        table="conversation_sessions", columns=(*_SUMMARY, "search_text", "participants"), time="ended_at"
    ),
    "rollup": Texts(table="rollups", columns=_SUMMARY, time="ended_at"),
    "evidence": Texts(
        table="memory_evidence",
        columns=("content",),
        type="text",
        id="(t.memory_id || ' ' || t.message_id)",
        time="said_at",
    ),
    "context": Texts(
        table="query_log", columns=("query", "answer"), type="text", id="t.context_id", time="asked_at"
    ),
    "edit": Texts(
        table="pending_changes",
        columns=("content",),
        type="text",
        id="jsonb_build_array(t.chat_id, t.external_id, t.sender_id)::text",
        time="received_at",
    ),
    "payload": Texts(
        table="refused_payloads",
        columns=("payload", "error"),
        type="text",
        id="t.key",
        chat="CAST(NULL AS text)",
        time="refused_at",
    ),
    "chat": Texts(table="chats", columns=("title",), type="text", id="t.chat_id"),
    "answer": Texts(
        table="llm_answers",
        columns=("answer",),
        type="text",
        id="(t.model || ' ' || encode(t.prompt_hash, 'hex'))",
        time="kept_at",
    ),
}
"""All kinds of them, by the first part of their keys; messages first, as others are made of them."""


def lock_texts(connection: Connection, kind: str, position: str) -> Row[Any] | None:
    """Lock a row and return all its columns with its `texts`; None if it is gone."""
    texts = TEXTS[kind]
    statement = f"""
        SELECT t.*, jsonb_build_array({texts._listed}) AS texts FROM {texts.table} t
        WHERE {texts.id} = CAST(:position AS {texts.type}) FOR UPDATE
    """
    return run(connection, text(statement), position=position).one_or_none()


def replace_texts(connection: Connection, kind: str, position: str, values: list[Any], **more: Any) -> None:
    """Write a row's texts, in the order in which they were read, and `more` of its columns."""
    texts = TEXTS[kind]
    new = dict(zip(texts.columns, values, strict=True)) | more
    columns = ", ".join(new)
    statement = f"""
        UPDATE {texts.table} t SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(
            CAST(NULL AS {texts.table}), :new))
        WHERE {texts.id} = CAST(:position AS {texts.type})
    """
    run(connection, text(statement), position=position, new=new)


_OF_JOB = """FROM jobs j WHERE j.tenant_id = backfills.tenant_id AND j.kind = 'backfill'
    AND j.key = CAST(backfills.id AS text)"""
# A backfill whose own job is dead has failed.
_DEAD = f"SELECT 1 {_OF_JOB} AND j.dead_at IS NOT NULL"
_COLUMNS = f"""id, filter, "cursor", total, seen, raised, created_at, updated_at, finished_at, started_by,
    CASE WHEN state = 'running' AND EXISTS ({_DEAD}) THEN 'failed' ELSE state END AS state,
    CASE WHEN state = 'running' THEN (SELECT j.last_error {_OF_JOB}) ELSE error END AS error"""
_INSERT = text(f"""
    INSERT INTO backfills (tenant_id, kind, filter, batch_size, rate_per_second, total, started_by)
    VALUES (:tenant, :kind, :filter, :batch_size, :rate, :total, :by) RETURNING {_COLUMNS}
""")
# Any constant will do; with the tenant's name it makes one advisory lock for each tenant.
_LOCK_STARTS = text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 7203116))")
_GET = text(f"SELECT {_COLUMNS} FROM backfills WHERE id = :id")
_LOCK = text(f"{_GET.text} FOR UPDATE")
_LISTING = text(f"SELECT {_COLUMNS} FROM backfills ORDER BY id DESC LIMIT :limit")
_SET_STATE = text("""
    UPDATE backfills SET state = :state, error = :error, updated_at = now(),
        finished_at = CASE WHEN :state IN ('running', 'paused') THEN NULL ELSE now() END
    WHERE id = :id
""")
# jobs that it has enqueued and workers have not done yet
_PENDING = text("""
    SELECT trace_id, count(*) FROM jobs WHERE due_at IS NOT NULL AND trace_id = ANY(:traces) GROUP BY trace_id
""")
_RUNNING = text(f"""
    SELECT id, kind, "cursor", total, seen, raised, created_at, updated_at, started_by,
        (SELECT count(*) FROM jobs w WHERE w.tenant_id = backfills.tenant_id AND w.due_at IS NOT NULL
            AND w.trace_id = 'backfill:' || backfills.id) AS pending
    FROM backfills WHERE state = 'running' AND NOT EXISTS ({_DEAD}) ORDER BY id
""")
_ADVANCE = text("""
    UPDATE backfills SET "cursor" = :cursor, seen = seen + :seen, raised = raised + :raised,
        updated_at = now()
    WHERE id = :id
""")
_FOR_MODEL = """(
    t.chat_id = ANY(CAST(:model_chats AS text[])) OR cardinality(CAST(:model_chats AS text[])) = 0)"""
# A model does not resummarize a session that retention has pruned.
_WHOLE = """t.message_count <= (
    SELECT count(*) FROM messages m WHERE m.tenant_id = t.tenant_id AND m.chat_id = t.chat_id
        AND m.session_key = t.session_key AND m.sent_at BETWEEN t.started_at AND t.ended_at)"""


def _as_backfill(row: Row[Any]) -> Backfill:
    fields = dict(row._mapping)
    return Backfill(request=BackfillRequest.model_validate(fields.pop("filter")), **fields)


def lock_starts(connection: Connection, tenant_id: str) -> None:
    """Let nobody else start a backfill of the tenant until the commit."""
    run(connection, _LOCK_STARTS, tenant=tenant_id)


def insert(connection: Connection, tenant_id: str, request: BackfillRequest, total: int, by: str) -> Backfill:
    """Create a backfill."""
    values: dict[str, Any] = {"kind": request.kind, "rate": request.rate_per_second}
    values |= {
        "batch_size": request.batch_size,
        "tenant": tenant_id,
        "filter": request.model_dump(mode="json"),
        "total": total,
        "by": by,
    }
    return _as_backfill(run(connection, _INSERT, **values).one())


def get(connection: Connection, backfill_id: int, *, lock: bool = False) -> Backfill | None:
    """Return a backfill, or None if the tenant has none of that id."""
    row = run(connection, _LOCK if lock else _GET, id=backfill_id).one_or_none()
    return _as_backfill(row) if row else None


def listing(connection: Connection, limit: int) -> list[Backfill]:
    """Return the newest backfills."""
    return [_as_backfill(row) for row in run(connection, _LISTING, limit=limit)]


def running(connection: Connection) -> list[Backfill]:
    """Return the running backfills of all tenants, without their filters (maintenance)."""
    return [
        Backfill(
            request=BackfillRequest(kind=row.kind),
            state="running",
            error=None,
            finished_at=None,
            **{name: value for name, value in row._mapping.items() if name != "kind"},
        )
        for row in run(connection, _RUNNING)
    ]


def with_pending(connection: Connection, backfills: Sequence[Backfill]) -> list[Backfill]:
    """Return backfills with the number of jobs that each waits for."""
    traces = [f"backfill:{backfill.id}" for backfill in backfills]
    pending = {row[0]: row[1] for row in run(connection, _PENDING, traces=traces)}
    return [
        backfill.model_copy(update={"pending": pending.get(trace, 0)})
        for backfill, trace in zip(backfills, traces, strict=True)
    ]


def set_state(connection: Connection, backfill_id: int, state: str, *, error: str | None = None) -> None:
    """Pause, resume, cancel or end a backfill."""
    run(connection, _SET_STATE, id=backfill_id, state=state, error=error)


def advance(connection: Connection, backfill_id: int, cursor: dict[str, Any], seen: int, raised: int) -> None:
    """Record the progress of a backfill."""
    run(connection, _ADVANCE, id=backfill_id, cursor=cursor, seen=seen, raised=raised)


def _filters(time: str, chat: str = "chat_id") -> str:
    return f"""(CAST(:chat AS text) IS NULL OR t.{chat} = :chat)
        AND (CAST(:since AS timestamptz) IS NULL OR t.{time} >= :since)
        AND (CAST(:until AS timestamptz) IS NULL OR t.{time} < :until)"""


def _without_vector(owner: str, time: str, tokens: str) -> str:
    """Return SQL of the rows with text to embed; those without a vector in a written space are missing."""
    rows, chat = EMBEDDABLE[owner]
    return f"""
        SELECT t.id AS position, '{owner}:' || t.id AS key, t.{chat} AS chat, {tokens} AS tokens,
            EXISTS (SELECT 1 FROM unnest(CAST(:spaces AS integer[])) AS space (id) WHERE NOT EXISTS (
                SELECT 1 FROM {owner}_vectors v WHERE v.tenant_id = t.tenant_id AND v.{owner}_id = t.id
                    AND v.space_id = space.id)) AS missing
        FROM {rows} AND {_filters(time, chat)}
    """


def _sessions(missing: str, which: str = "true") -> str:
    return f"""
        SELECT t.id AS position, 'session:' || t.id AS key, t.chat_id AS chat, t.token_count AS tokens,
            ({missing}) AS missing
        FROM conversation_sessions t
        WHERE t.status IN ('closed', 'summarized', 'failed', 'skipped') AND {which} AND {_filters("ended_at")}
    """


# Rows of each kind: position, job key, chat, whether something is missing.
SOURCES = {
    "embed_sessions": _without_vector("session", "ended_at", "length(t.summary_text) / 4"),
    "embed_messages": _without_vector("message", "sent_at", "t.token_count"),
    "embed_memories": _without_vector("memory", "created_at", "length(t.content) / 4"),
    "summarize": _sessions(
        f"""t.status = 'failed' OR t.summary_revision IS DISTINCT FROM t.revision
            OR t.summary_version IS DISTINCT FROM :version
            OR (:by_model AND t.summary_model = '{EXTRACTIVE}' AND {_FOR_MODEL} AND {_WHOLE})""",
        "t.message_count >= :min_messages",
    ),
    "rollup": f"""
        SELECT key AS position, key, chat, tokens, NOT EXISTS (
            SELECT 1 FROM rollups r WHERE r.chat_id = week.chat AND r.week = week.monday) AS missing
        FROM (
            SELECT to_char(monday, 'YYYY-MM-DD:') || t.chat_id AS key, t.chat_id AS chat, monday,
                sum(length(t.summary_text)) / 4 AS tokens
            FROM conversation_sessions t JOIN chats c ON c.tenant_id = t.tenant_id AND c.chat_id = t.chat_id
                CROSS JOIN LATERAL (
                    SELECT date_trunc('week', t.started_at AT TIME ZONE c.time_zone)::date AS monday) began
            WHERE t.status <> 'merged' AND t.summary_text IS NOT NULL AND c.memory
                AND monday + 7 <= now() AT TIME ZONE c.time_zone
                AND {_FOR_MODEL} AND {_filters("ended_at")}
            GROUP BY t.chat_id, monday HAVING count(*) >= {MIN_SESSIONS}
        ) week
    """,
    "extract": _sessions(f"""
            t.facts_revision IS DISTINCT FROM t.revision
            OR (:by_model AND t.facts_model = '{RULES}' AND {_FOR_MODEL})"""),
    "answers": f"""
        SELECT t.context_id AS position, t.context_id AS key, t.chat_id AS chat, t.memory_id IS NULL AS missing
        FROM query_log t
        WHERE t.answer IS NOT NULL AND t.query IS NOT NULL AND t.user_id IS NOT NULL AND t.redacted_at IS NULL
            AND {_filters("asked_at")}
    """,
    "sessionize": """
        SELECT t.chat_id AS position, t.chat_id AS key, t.chat_id AS chat, true AS missing FROM chats t
        WHERE (CAST(:chat AS text) IS NULL OR t.chat_id = :chat)
    """,
    **{f"secrets_{kind}": texts.rows(kind) for kind, texts in TEXTS.items()},
}


def _type(source: str) -> str:
    """Return the type of a source's positions."""
    types = {"sessionize": "text", "answers": "text", "rollup": "text", "embed_memories": "uuid"}
    types |= {f"secrets_{kind}": texts.type for kind, texts in TEXTS.items()}
    return types.get(source, "bigint")


def window(
    connection: Connection, source: str, after: str | int | None, limit: int, **values: Any
) -> Sequence[Row[Any]]:
    """Return the next rows of a source, `(position, key, chat, missing)` and more, after a position, in order."""
    kind = _type(source)
    statement = text(f"""
        SELECT * FROM ({SOURCES[source]}) s
        WHERE CAST(:after AS {kind}) IS NULL OR position > CAST(:after AS {kind})
        ORDER BY position LIMIT :batch
    """)
    return run(connection, statement, after=after, batch=limit, **values).all()


def count(connection: Connection, source: str, **values: Any) -> tuple[int, int]:
    """Count `(all, missing)` rows of a source."""
    statement = text(f"SELECT count(*), count(*) FILTER (WHERE missing) FROM ({SOURCES[source]}) s")
    there, missing = run(connection, statement, **values).one()
    return there, missing


class Tokens(NamedTuple):
    """Rows of a source, and the tokens of their texts."""

    rows: int
    tokens: int


def count_tokens(
    connection: Connection, source: str, *, missing_only: bool, limit: int | None, **values: Any
) -> Tokens:
    """Count up to `limit` rows of a source with `tokens`, and sum these."""
    statement = text(f"""
        SELECT count(*), coalesce(sum(tokens), 0) FROM (
            SELECT tokens FROM ({SOURCES[source]}) s WHERE missing OR NOT :missing_only
            ORDER BY position LIMIT :most) chosen
    """)
    rows, tokens = run(connection, statement, missing_only=missing_only, most=limit, **values).one()
    return Tokens(rows=int(rows), tokens=int(tokens))


def unfinished(connection: Connection, source: str, upto: str, **values: Any) -> int:
    """Count the rows up to a position that are still missing something, except those given up."""
    kind = source.partition("_")[0]
    statement = text(f"""
        SELECT count(*) FROM ({SOURCES[source]}) s WHERE missing AND position <= CAST(:upto AS {_type(source)})
            AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.kind = '{kind}' AND w.key = s.key
                AND (w.dead_at IS NOT NULL OR w.last_error IS NOT NULL))
    """)
    return number(connection, statement, upto=upto, **values)


def outstanding(
    connection: Connection,
    source: str,
    upto: str | None,
    *,
    raised_until: datetime,
    missing_only: bool,
    **values: Any,
) -> tuple[bool, int]:
    """Tell whether jobs up to a position of a source are pending, and count those of its rows that were given up.

    With `missing_only`, only of rows that are missing something; without, only jobs pending since `raised_until`.
    """
    kind, _, _ = source.partition("_")
    prefixes = {"embed_messages": "message:", "embed_memories": "memory:", "rollup": ""}
    prefix = prefixes.get(source, "session:")
    # from the job to its row: the other way round every stored row would be read
    matching = f"""
        FROM (SELECT *, CASE WHEN starts_with(key, '{prefix}')
                THEN CAST(substr(key, {len(prefix) + 1}) AS {_type(source)}) END AS position
            FROM jobs WHERE kind = '{kind}') w
        JOIN ({SOURCES[source]}) s ON s.position = w.position
        WHERE s.position <= CAST(:upto AS {_type(source)}) AND (s.missing OR NOT :missing_only)
    """
    statement = text(f"""
        SELECT EXISTS (SELECT 1 {matching} AND w.due_at IS NOT NULL AND (:missing_only OR w.pending_since <= :moment)),
            (SELECT count(*) {matching} AND w.due_at IS NULL AND (w.dead_at IS NOT NULL OR w.last_error IS NOT NULL))
    """)
    values |= {"upto": upto, "moment": raised_until, "missing_only": missing_only}
    pending, given_up = run(connection, statement, **values).one()
    return pending, given_up
