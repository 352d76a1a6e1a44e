"""Sessions are summarized by a language model behind HTTP, whatever it answers: none is stuck, no call is in vain."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from pipeline.clients.openai.openai_chat import OpenAIChatModel
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import make_summarizer
from pipeline.enrich.summaries.summary_policy import Rollout, SummaryPolicy
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Policy
from pipeline.llm.gateway import Gateway
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.providers.chat_server import ChatServer, Reply, Request, refused, well
from tests.test_pipeline import CHAT, place, rows

MODEL = "small-1"
# a job that would be claimed at once is tried once in a test
ONE = Policy(batch=1, lease_seconds=60, max_attempts=3)


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


ALL = Rollout()


def handler(
    database: Database, client: summarize.Summarizer, rollout: Rollout = ALL, **named: float
) -> Handler:
    return summarize.summarizer(
        database, client, SummaryPolicy(min_messages=4, version=1, lease_seconds=60, rollout=rollout, **named)
    )


def run_due(database: Database, handle: Handler) -> None:
    for _ in range(count_due(database)):
        runner.run(database, "summarize", handle, ONE)


def count_due(database: Database) -> int:
    found = rows(
        database, "SELECT count(*) FROM jobs WHERE kind = 'summarize' AND due_at <= now() AND claimed IS NULL"
    )
    return int(str(found[0][0]))


def time_passes(database: Database, seconds: float) -> None:
    with database.tenant(TENANT) as connection:
        connection.execute(
            text(
                "UPDATE jobs SET due_at = due_at - make_interval(secs => :s), "
                "pending_since = pending_since - make_interval(secs => :s)"
            ),
            {"s": seconds},
        )
        connection.execute(
            text(
                "UPDATE llm_providers SET stopped_at = stopped_at - make_interval(secs => :s), "
                "stopped_until = stopped_until - make_interval(secs => :s)"
            ),
            {"s": seconds},
        )


def stored(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database,
        "SELECT status, summary_model FROM conversation_sessions WHERE status <> 'merged' ORDER BY started_at, id",
    )


def waiting(database: Database) -> list[tuple[object, ...]]:
    """The jobs left: seconds until each is due, attempts."""
    return rows(
        database,
        "SELECT CAST(round(extract(epoch FROM due_at - now())) AS integer), attempts FROM jobs "
        "WHERE kind = 'summarize' ORDER BY due_at",
    )


def say(
    database: Database, rules: SessionPolicy, policy: Policy, *sessions: int, chat: ChatIn = CHAT
) -> None:
    """Sessions of five messages, one for each number, a day apart."""
    for number in sessions:
        said = [
            message(1440 * number + n, f"the boiler number {number} shows error E{n}", id=f"{number}-{n}")
            for n in range(5)
        ]
        accept.accept(database, TENANT, chat, said)
    place(database, rules, policy)


@pytest.fixture
def one_session(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    say(database, rules, policy, 1)
    return database


# A good day


def test_a_session_costs_one_call(
    one_session: Database, client: summarize.Summarizer, server: ChatServer
) -> None:
    run_due(one_session, handler(one_session, client))
    assert stored(one_session) == [("summarized", MODEL)]
    assert len(server.requests) == 1
    assert waiting(one_session) == []
    found = rows(one_session, "SELECT summary_text, topic_tags FROM conversation_sessions")
    assert found == [
        (
            "Ann: the boiler number 1 shows error E0. Ann: the boiler number 1 shows error E2. "
            "Ann: the boiler number 1 shows error E4.",
            ["as said"],
        )
    ]


def test_a_late_message_costs_what_is_new(
    one_session: Database,
    client: summarize.Summarizer,
    server: ChatServer,
    rules: SessionPolicy,
    policy: Policy,
) -> None:
    handle = handler(one_session, client)
    run_due(one_session, handle)
    # one that comes after all that was summarized is told with the summary so far
    accept.accept(one_session, TENANT, CHAT, [message(1440 + 9, "Beatriz repaired the boiler", id="late")])
    place(one_session, rules, policy)
    run_due(one_session, handle)
    data = server.requests[-1]["messages"][1]["content"]
    assert "<before-" in data
    assert "Beatriz repaired" in data
    assert "error E1" not in data
    # one that comes before its end changes what was told
    accept.accept(one_session, TENANT, CHAT, [message(1440 + 2.5, "it is the old boiler", id="between")])
    place(one_session, rules, policy)
    run_due(one_session, handle)
    data = server.requests[-1]["messages"][1]["content"]
    assert "<before-" not in data
    assert "error E1" in data
    assert len(server.requests) == 3
    assert stored(one_session) == [("summarized", MODEL)]


def test_a_session_longer_than_the_window_is_told_in_parts(
    database: Database, server: ChatServer, rules: SessionPolicy, policy: Policy
) -> None:
    said = [message(n / 10, f"part {n} of the story: " + "boiler pipes leak " * 20) for n in range(80)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        client = make_summarizer(MODEL, Gateway(database, model), timeout_seconds=5, context_tokens=4000)
        run_due(database, handler(database, client))
    assert stored(database) == [("summarized", MODEL)]
    told = [request["messages"][1]["content"] for request in server.requests]
    parts = [data for data in told if "part " in data and "[2026" in data]
    assert 2 < len(parts) < len(told)
    for number in range(80):
        assert sum(f"part {number} of" in data for data in parts) == 1
    assert all(len(request["messages"][1]["content"]) < 4000 * 4 for request in server.requests)


# Answers that cannot be used


@pytest.mark.parametrize(
    "bad",
    [
        Reply(text="Once upon a time there was a boiler."),
        Reply(text='{"summary": "Ann says that the boi', finish_reason="length"),
    ],
    ids=["prose", "cut off"],
)
def test_an_answer_is_repaired_once(
    one_session: Database, client: summarize.Summarizer, server: ChatServer, bad: Reply
) -> None:
    server.replies(bad)
    run_due(one_session, handler(one_session, client))
    assert stored(one_session) == [("summarized", MODEL)]
    first, second = server.requests
    if bad.finish_reason == "length":
        assert second["max_tokens"] == 2 * first["max_tokens"]
    else:
        assert second["messages"][2] == {"role": "assistant", "content": bad.text}
        assert "cannot be used" in second["messages"][3]["content"]


def test_a_model_whose_thoughts_take_all_the_room_gets_four_times_as_much_once(
    one_session: Database, server: ChatServer
) -> None:
    # Given a model that thinks for longer than its answer has room
    room = 900

    def thinking(request: Request) -> Reply:
        cut = request["max_tokens"] < 3 * room
        return (
            Reply(text="<think>Хорошо, 首先要看 😀 der Kessel", finish_reason="length")
            if cut
            else well(request)
        )

    server.answer = thinking
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        client = make_summarizer(MODEL, Gateway(one_session, model), timeout_seconds=5, answer_tokens=room)
        run_due(one_session, handler(one_session, client))
    # Then its second answer is the summary, and both were paid for
    assert stored(one_session) == [("summarized", MODEL)]
    assert [request["max_tokens"] for request in server.requests] == [room, 4 * room]
    ledger = "SELECT purpose, outcome, input_tokens, output_tokens FROM llm_calls ORDER BY id"
    assert rows(one_session, ledger) == [("summary", "answered", 100, 20), ("repair", "answered", 100, 20)]
    assert failures(one_session) == 0


def failures(database: Database) -> int:
    """What is counted of tries that brought no summary."""
    counted = "SELECT sum(value) FROM daily_counters WHERE name = 'session_summary_failures'"
    return round(float(str(rows(database, counted)[0][0] or 0)))


@pytest.mark.parametrize(
    "bad",
    [refused("перегружено, позже", 503), Reply(text="", finish_reason="length")],
    ids=["busy", "always thinking"],
)
def test_each_try_without_a_summary_of_the_model_is_counted_as_a_failure(
    one_session: Database, client: summarize.Summarizer, server: ChatServer, bad: Reply
) -> None:
    server.replies(then=lambda _request: bad)
    for tries in (1, 2):
        run_due(one_session, handler(one_session, client))
        assert failures(one_session) == tries
        time_passes(one_session, 6 * 3600)
    server.answer = well
    run_due(one_session, handler(one_session, client))
    assert stored(one_session) == [("summarized", MODEL)]
    assert failures(one_session) == 2


@pytest.mark.parametrize(
    ("bad", "calls"),
    [(Reply(text="Once upon a time there was a boiler."), 2), (refused("the text is too long"), 1)],
    ids=["prose", "refused"],
)
def test_where_no_answer_can_be_used_the_session_is_extracted_and_asked_about_later(
    one_session: Database,
    rules: SessionPolicy,
    client: summarize.Summarizer,
    server: ChatServer,
    bad: Reply,
    calls: int,
) -> None:
    # Given a model that never answers well
    server.replies(then=lambda _request: bad)
    handle = handler(one_session, client)
    for attempt in range(1, runner.AGAIN_ATTEMPTS + 1):
        run_due(one_session, handle)
        # Then there is a summary all the same, marked as what it is, with the reason
        assert stored(one_session) == [("summarized", "extractive-v1")]
        assert len(server.requests) == calls * attempt
        reason = str(rows(one_session, "SELECT failure_reason FROM conversation_sessions")[0][0])
        assert reason.startswith(("Provider", "InvalidAnswer"))
        # and it is asked again hours later, but not for ever
        expected = [] if attempt == runner.AGAIN_ATTEMPTS else [(6 * 3600, attempt)]
        assert waiting(one_session) == expected
        run_due(one_session, handle)
        time_passes(one_session, 6 * 3600)
    # until a backfill, which finds it missing
    server.answer = well
    current = Current(rules=rules, summary_version=1, min_messages=4, summary_model=MODEL)
    request = BackfillRequest(kind="summarize")
    assert backfill.plan(one_session, TENANT, request, current).missing == 1
    backfill.start(one_session, TENANT, request, current)
    runner.run(one_session, "backfill", backfill.backfiller(one_session, current), ONE)
    run_due(one_session, handle)
    assert stored(one_session) == [("summarized", MODEL)]
    assert backfill.plan(one_session, TENANT, request, current).missing == 0
    assert rows(one_session, "SELECT failure_reason FROM conversation_sessions") == [(None,)]


def test_a_change_does_not_wait_for_the_model_to_be_asked_again(
    one_session: Database,
    client: summarize.Summarizer,
    server: ChatServer,
    rules: SessionPolicy,
    policy: Policy,
) -> None:
    server.replies(refused("the text is too long"))
    run_due(one_session, handler(one_session, client))
    assert waiting(one_session) == [(6 * 3600, 1)]
    accept.accept(one_session, TENANT, CHAT, [message(1440 + 9, "Beatriz repaired it", id="late")])
    place(one_session, rules, policy)
    assert count_due(one_session) == 1
    run_due(one_session, handler(one_session, client))
    assert stored(one_session) == [("summarized", MODEL)]
    # the extracted summary is not what the model goes on from
    assert "<before-" not in server.requests[-1]["messages"][1]["content"]


# Providers that are away


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(status=429, text="slow down", headers={"Retry-After": "77"}), 77),
        (Reply(status=500, text="oops"), 15),
        (Reply(status=401, text="wrong key"), 600),
    ],
    ids=["429", "500", "401"],
)
def test_a_provider_that_is_away_costs_no_attempt(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    client: summarize.Summarizer,
    server: ChatServer,
    reply: Reply,
    seconds: int,
) -> None:
    say(database, rules, policy, 1, 2)
    server.replies(reply, reply)
    run_due(database, handler(database, client))
    assert stored(database) == [("closed", None)] * 2
    # what waits together is spread a little
    found = [(int(str(due)), attempts) for due, attempts in waiting(database)]
    assert [attempts for _, attempts in found] == [0, 0]
    assert all(seconds - 5 <= due <= 1.1 * seconds for due, _ in found)
    # and once it is back, each is summarized by one call
    server.answer = well
    time_passes(database, 1.1 * seconds)
    run_due(database, handler(database, client))
    assert stored(database) == [("summarized", MODEL)] * 2
    # who says when to come again is not asked for the other one
    assert len(server.requests) == (4 if seconds == 15 else 3)


# Orders in the transcript


# Which sessions


def test_only_canaries_are_sent_to_the_model(
    database: Database, rules: SessionPolicy, policy: Policy, client: summarize.Summarizer, server: ChatServer
) -> None:
    say(database, rules, policy, 1)
    say(database, rules, policy, 2, chat=ChatIn(chat_id="test:canary"))
    run_due(database, handler(database, client, Rollout(chats=frozenset(("test:canary",)))))
    assert stored(database) == [("summarized", "extractive-v1"), ("summarized", MODEL)]
    assert len(server.requests) == 1
    assert waiting(database) == []


def test_of_a_quiet_chat_every_third_session_is_sent_to_the_model(
    database: Database, rules: SessionPolicy, policy: Policy, client: summarize.Summarizer, server: ChatServer
) -> None:
    # a session every two days: fewer than seven in a week
    say(database, rules, policy, *range(0, 14, 2))
    run_due(database, handler(database, client, Rollout(every=3)))
    models = [model for _, model in stored(database)]
    assert models == [MODEL, "extractive-v1", "extractive-v1"] * 2 + [MODEL]
    assert len(server.requests) == 3
