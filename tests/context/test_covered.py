"""A young chat does not pay twice: what a context shows whole is not summarized in it besides."""

from typing import Any

import pytest

from pipeline import context
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.context.found_talk import shown_whole
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.retrieval.sessions import RetrievedSession
from pipeline.store.database import Database
from pipeline.text import truncate
from schemas.context import Context, ContextItem
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.sessions import Message
from schemas.settings import Settings
from tests.conftest import EPOCH, MIGRATED, POLICY, TENANT, Templates, message
from tests.context.test_context import CHAT, do_all, fill


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("filled", fill) if "filled" in request.fixturenames else MIGRATED


@pytest.fixture
def filled(database: Database) -> Database:
    """Three sessions of four messages each, in memory."""
    return database


def ask(database: Database, settings: Settings, question: str, **fields: Any) -> Context:
    query = ContextQuery.model_validate(
        {"chat_id": CHAT.chat_id, "query": question, "explain": True} | fields
    )
    return context.build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)


def sessions_shown(found: Context) -> list[str]:
    return [i.id for b in found.blocks if b.kind in {"sessions", "related"} for i in b.items]


def test_a_young_chat_is_shown_once(filled: Database, settings: Settings) -> None:
    # Given a chat that its recent messages show whole
    found = ask(filled, settings, "what about the plumber?")
    assert len([i for b in found.blocks if b.kind == "history" for i in b.items]) == 12
    # Then no line of it stands twice, and the explanation says why there is no summary
    assert sessions_shown(found) == []
    assert [block.kind for block in found.blocks] == ["guardrails", "history", "question"]
    assert found.explain is not None
    covered = [each for each in found.explain.dropped if each.kind == "session"]
    assert {(each.reason, each.detail) for each in covered} == {
        ("covered", "the context holds all its messages")
    }
    assert len(covered) == 3


def test_a_session_that_is_shown_in_part_keeps_its_summary(filled: Database, settings: Settings) -> None:
    # Given room for the last session and a part of the one before it
    found = ask(
        filled,
        settings,
        "what about the boat?",
        parameters={"history_tokens": 100, "messages": 1, "session_share": 1},
    )
    assert 4 < len([i for b in found.blocks if b.kind == "history" for i in b.items]) < 8
    assert found.explain is not None
    last = max(found.explain.sessions, key=lambda hit: hit.at or EPOCH)
    assert last.id not in sessions_shown(found)
    assert len(sessions_shown(found)) == 2


def test_a_session_that_its_messages_show_whole_is_not_summarized_either_and_others_get_its_tokens(
    filled: Database, settings: Settings
) -> None:
    # Given no recent messages, and room for all that was said
    found = ask(filled, settings, "the plumber and the boat", include_history=False)
    assert len([i for b in found.blocks if b.kind == "exchanges" for i in b.items]) == 12
    assert sessions_shown(found) == []
    # When there is room for fewer and fewer, the sessions that are not whole are summarized
    counts: set[int] = set()
    for most in range(1, 12):
        parameters = {"messages": most, "session_share": 1}
        some = ask(filled, settings, "the plumber and the boat", include_history=False, parameters=parameters)
        assert some.explain is not None
        shown = [hit.session_id for hit in some.explain.messages if hit.shown_in == "exchanges"]
        assert len(shown) == most
        partly = {hit.id for hit in some.explain.sessions if shown.count(hit.session_id) < 4}
        assert set(sessions_shown(some)) == partly
        counts.add(len(partly))
    assert {1, 2, 3} <= counts


def test_an_explanation_changes_nothing_of_it(filled: Database, settings: Settings) -> None:
    for budget in (150, 300, 500, 2000):
        told, untold = (
            ask(filled, settings, "the plumber and the boat", budget_tokens=budget, explain=explain)
            for explain in (True, False)
        )
        assert untold.blocks[:-1] == told.blocks[:-1]


def test_a_message_without_text_and_the_question_itself_do_not_count(
    database: Database, settings: Settings
) -> None:
    rules = SessionPolicy.of(settings)
    talk = [
        message(0, "the boiler is broken", id="a"),
        message(1, "", id="b"),
        message(2, "call the plumber", id="c"),
        message(3, "thanks", id="d"),
        message(4, "Who is called?", id="e"),
    ]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT.chat_id), talk)
    do_all(database, rules, POLICY)
    found = ask(database, settings, "who is called?")
    assert sessions_shown(found) == []
    assert found.text.count("call the plumber") == 1


def test_only_messages_of_the_same_thread_and_time_count() -> None:
    def said(number: int, **fields: Any) -> Message:
        given = {
            "id": number,
            "chat_id": "c",
            "external_id": str(number),
            "sender_id": "s",
            "sender_name": "",
            "role": "user",
            "content": f"line {number}",
            "sent_at": EPOCH,
            "position": 0,
            "session_key": "",
            "agent_id": None,
            "metadata": {},
        } | fields
        return Message(**given)

    def item(number: int, text: str | None = None) -> ContextItem:
        return ContextItem(kind="message", id=str(number), text=text or f"18:00 s: line {number}", reason="")

    session = RetrievedSession(
        id=7,
        started_at=EPOCH,
        ended_at=EPOCH,
        summary="",
        topics=[],
        entities=[],
        session_key="",
        message_count=2,
    )

    def whole(
        recent: list[Message], history: list[ContextItem], exchanges: list[ContextItem], of: dict[str, int]
    ) -> bool:
        lines = [(m, "" if m.content == "?" else truncate.displayed(m.content)) for m in recent]
        return shown_whole([session], lines, history, exchanges, of) == {7}

    both = [said(1), said(2)]
    assert whole(both, [item(1), item(2)], [], {})
    assert whole(both, [item(1)], [item(2)], {"2": 7})
    assert not whole(both, [item(1)], [], {})
    assert not whole(both, [item(1)], [item(2)], {"2": 8})
    # of another thread, of another time, cut
    assert not whole([said(1), said(2, session_key="k")], [item(1), item(2)], [], {})
    assert not whole([said(1), said(2, sent_at=EPOCH.replace(year=2020))], [item(1), item(2)], [], {})
    assert not whole(both, [item(1), item(2, "18:00 s: li…")], [], {})
