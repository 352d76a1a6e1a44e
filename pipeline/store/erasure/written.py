"""SQL of all columns that hold what somebody wrote, or what was made of it: to read and to replace their texts."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import run


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


def locked(connection: Connection, kind: str, position: str) -> Row[Any] | None:
    """Lock a row and return all its columns with its `texts`; None if it is gone."""
    texts = TEXTS[kind]
    statement = f"""
        SELECT t.*, jsonb_build_array({texts._listed}) AS texts FROM {texts.table} t
        WHERE {texts.id} = CAST(:position AS {texts.type}) FOR UPDATE
    """
    return run(connection, text(statement), position=position).one_or_none()


def replace(connection: Connection, kind: str, position: str, values: list[Any], **more: Any) -> None:
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
