"""Messages placed one after another, and what must be stored of them."""

from collections.abc import Sequence

from pipeline.ingest import sessionize
from pipeline.store.connections.database import Database
from pipeline.text import tokens
from schemas.messages import MessageIn
from schemas.sessions import key_of
from tests.conftest import SESSION_POLICY
from tests.harness.pipeline import rows


def stored(database: Database, chat_id: str = "test:1") -> list[tuple[object, ...]]:
    return rows(
        database,
        f"""SELECT session_key, started_at, ended_at, message_count, token_count, participants, status
        FROM conversation_sessions WHERE chat_id = '{chat_id}' AND status <> 'merged'
        ORDER BY session_key COLLATE "C", started_at""",
    )


def expected(messages: Sequence[MessageIn]) -> list[tuple[object, ...]]:
    """What the pure function says of the unique messages."""
    found: list[tuple[object, ...]] = []
    for key in sorted({key_of(m.session_key, m.thread) for m in messages}):
        mine = {m.external_id: m for m in messages if key_of(m.session_key, m.thread) == key}.values()
        closes = sorted({m.sent_at for m in mine if m.closes_session and m.session_key})
        for part in sessionize.split((m.sent_at for m in mine), SESSION_POLICY.gap_of(key), closes):
            inside = [m for m in mine if part.started_at <= m.sent_at <= part.ended_at]
            speakers = sorted({m.sender_name for m in inside})
            size = sum(tokens.estimate(m.content) for m in inside)
            found.append((key, part.started_at, part.ended_at, part.count, size, speakers, "closed"))
    return found
