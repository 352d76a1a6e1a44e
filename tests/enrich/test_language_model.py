"""Sessions are summarized by a language model behind HTTP, whatever it answers: none is stuck, no call is in vain."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from pipeline.clients.openai_chat import OpenAIChatModel
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import make_summarizer
from pipeline.enrich.summaries.summary_policy import Rollout, SummaryPolicy
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Policy
from pipeline.llm.gateway import Gateway
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.messages import ChatIn
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, place, rows
from tests.providers.chat_server import ChatServer, Reply, Request, well

MODEL = "small-1"
# a job that would be claimed at once is tried once in a test
ONE = Policy(batch=1, lease_seconds=60, max_attempts=3)
# Seconds until each is due, and its attempts.
JOBS = """
    SELECT CAST(round(extract(epoch FROM due_at - now())) AS integer), attempts FROM jobs WHERE kind = 'summarize'
"""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    with server.running():
        yield server


@pytest.fixture
def client(database: Database, server: ChatServer) -> Iterator[summarize.Summarizer]:
    """The summarizer behind it, which does not wait long."""
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        yield make_summarizer(MODEL, Gateway(database, model), timeout_seconds=3)


def handler(database: Database, client: summarize.Summarizer, rollout: Rollout | None = None) -> Handler:
    how = SummaryPolicy(min_messages=4, version=1, lease_seconds=60, rollout=rollout or Rollout())
    return summarize.summarizer(database, client, how)


def run_due(database: Database, handle: Handler) -> None:
    """Try everything that is due once."""
    for _ in rows(database, f"{JOBS} AND due_at <= now() AND claimed IS NULL"):
        runner.run(database, "summarize", handle, ONE)


def pass_hours(database: Database, hours: int) -> None:
    earlier = f"due_at = due_at - interval '{hours} h', pending_since = pending_since - interval '{hours} h'"
    rows(database, f"UPDATE jobs SET {earlier}")


def stored(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "SELECT status, summary_model FROM conversation_sessions ORDER BY id")


def say(database: Database, chat: ChatIn = CHAT) -> None:
    """A session of five messages."""
    said = [message(1440 + n, f"the boiler shows error E{n}", id=f"1-{n}") for n in range(5)]
    accept.accept(database, TENANT, chat, said)
    place(database)


@pytest.fixture
def one_session(database: Database) -> Database:
    say(database)
    return database


def test_a_late_message_costs_what_is_new(
    one_session: Database, client: summarize.Summarizer, server: ChatServer
) -> None:
    handle = handler(one_session, client)
    run_due(one_session, handle)
    # one that comes after all that was summarized is told with the summary so far
    accept.accept(one_session, TENANT, CHAT, [message(1440 + 9, "Beatriz repaired the boiler", id="late")])
    place(one_session)
    run_due(one_session, handle)
    data = server.requests[-1]["messages"][1]["content"]
    assert "<before-" in data
    assert "Beatriz repaired" in data
    assert "error E1" not in data
    # one that comes before its end changes what was told
    accept.accept(one_session, TENANT, CHAT, [message(1440 + 2.5, "it is the old boiler", id="between")])
    place(one_session)
    run_due(one_session, handle)
    data = server.requests[-1]["messages"][1]["content"]
    assert "<before-" not in data
    assert "error E1" in data
    assert len(server.requests) == 3
    assert stored(one_session) == [("summarized", MODEL)]


PROSE = Reply(text="Once upon a time there was a boiler.")


def test_an_answer_is_repaired_once(
    one_session: Database, client: summarize.Summarizer, server: ChatServer
) -> None:
    server.replies(PROSE)
    run_due(one_session, handler(one_session, client))
    assert stored(one_session) == [("summarized", MODEL)]
    _, second = server.requests
    assert second["messages"][2] == {"role": "assistant", "content": PROSE.text}
    assert "cannot be used" in second["messages"][3]["content"]


def test_a_model_whose_thoughts_take_all_the_room_gets_four_times_as_much_once(
    one_session: Database, server: ChatServer
) -> None:
    # Given a model that thinks for longer than its answer has room
    room = 900

    def thinking(request: Request) -> Reply:
        cut = request["max_tokens"] < 3 * room
        return Reply(text="<think>Хорошо, 首先要看 😀", finish_reason="length") if cut else well(request)

    server.answer = thinking
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        client = make_summarizer(MODEL, Gateway(one_session, model), timeout_seconds=5, answer_tokens=room)
        run_due(one_session, handler(one_session, client))
    # Then its second answer is the summary, and both were paid for
    assert stored(one_session) == [("summarized", MODEL)]
    assert [request["max_tokens"] for request in server.requests] == [room, 4 * room]
    ledger = "SELECT purpose, outcome, input_tokens, output_tokens FROM llm_calls ORDER BY id"
    assert rows(one_session, ledger) == [("summary", "answered", 100, 20), ("repair", "answered", 100, 20)]


def test_where_no_answer_can_be_used_the_session_is_extracted_and_asked_about_later(
    one_session: Database, client: summarize.Summarizer, server: ChatServer
) -> None:
    # Given a model that never answers well
    server.replies(then=lambda _request: PROSE)
    handle = handler(one_session, client)
    for attempt in range(1, runner.MODEL_ATTEMPTS + 1):
        run_due(one_session, handle)
        # Then there is a summary all the same, marked as what it is, with the reason
        assert stored(one_session) == [("summarized", "extractive-v1")]
        assert len(server.requests) == 2 * attempt
        reason = str(rows(one_session, "SELECT failure_reason FROM conversation_sessions")[0][0])
        assert reason.startswith("InvalidAnswer")
        # and it is asked again hours later, but not for ever
        expected = [] if attempt == runner.MODEL_ATTEMPTS else [(6 * 3600, attempt)]
        assert rows(one_session, JOBS) == expected
        run_due(one_session, handle)
        pass_hours(one_session, 6)
    # until a backfill, which finds it missing
    server.answer = well
    current = Current(rules=SESSION_POLICY, summary_version=1, min_messages=4, summary_model=MODEL)
    request = BackfillRequest(kind="summarize")
    assert backfill.plan(one_session, TENANT, request, current).missing == 1
    backfill.start(one_session, TENANT, request, current)
    runner.run(one_session, "backfill", backfill.backfiller(one_session, current), ONE)
    run_due(one_session, handle)
    assert stored(one_session) == [("summarized", MODEL)]
    assert backfill.plan(one_session, TENANT, request, current).missing == 0
    assert rows(one_session, "SELECT failure_reason FROM conversation_sessions") == [(None,)]


def test_only_canaries_are_sent_to_the_model(
    database: Database, client: summarize.Summarizer, server: ChatServer
) -> None:
    say(database)
    say(database, ChatIn(chat_id="test:canary"))
    run_due(database, handler(database, client, Rollout(chats=frozenset(("test:canary",)))))
    assert stored(database) == [("summarized", "extractive-v1"), ("summarized", MODEL)]
    assert len(server.requests) == 1
    assert rows(database, JOBS) == []
