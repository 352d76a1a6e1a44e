"""The log says which session was opened, closed, skipped or summarized, by ids, and only what was committed."""

import pytest
from structlog.testing import capture_logs

from pipeline.ingest import accept
from pipeline.ingest import place as placing
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.operations import sweep
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.test_pipeline import place, rows, run, summarizer

LONG = ["Кто купил краску?", "我买了油漆 🎨", "اشتريت الفرشاة", "ยังไม่ได้ทา"]


@pytest.mark.parametrize("chat_id", ["test:покраска", "test:油漆", "telegram:-100"])
def test_each_session_has_its_lines(
    database: Database, rules: SessionPolicy, policy: Policy, chat_id: str
) -> None:
    said = [message(n, text, id=f"а{n}") for n, text in enumerate(LONG)]
    accept.accept(
        database,
        TENANT,
        ChatIn(chat_id=chat_id),
        [*said, message(500, "Готово!", id="б")],
        trace_id="request-7",
    )
    with capture_logs() as seen:
        place(database, rules, policy)
        sweep.sweep(database, rules, max_attempts=3)
        run(database, "summarize", summarizer(database), policy)
    (long,), (short,) = rows(database, "SELECT id FROM conversation_sessions ORDER BY started_at")
    lines = [(e["event"], e["session_id"], e["tenant"], e["chat_id"]) for e in seen if "session_id" in e]
    assert sorted(lines) == sorted(
        (event, session, TENANT, chat_id)
        for event, session in (
            ("session_opened", long),
            ("session_opened", short),
            ("session_closed", long),
            ("session_closed", short),
            ("session_summarized", long),
            ("session_skipped", short),
        )
    )
    assert {e.get("trace_id") for e in seen if e["event"] in ("session_opened", "session_summarized")} == {
        "request-7"
    }
    (summary,) = [e for e in seen if e["event"] == "session_summarized"]
    assert (summary["model"], summary["messages"]) == ("extractive-v1", len(LONG))
    assert summary["seconds"] >= 0
    assert not [text for text in (*LONG, "Готово") if text in str(seen)]


def test_what_is_rolled_back_is_not_told(database: Database, rules: SessionPolicy) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:откат"), [message(0, "Никогда")])
    with capture_logs() as seen, pytest.raises(ZeroDivisionError), database.tenant(TENANT) as connection:
        placing.place(connection, TENANT, {"test:откат": None}, rules)
        raise ZeroDivisionError
    assert "session_opened" not in {line["event"] for line in seen}
