"""A real worker of `summarize` asks a real server: many sessions at once, each once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from tests.processes.conftest import Deployment, clock, deployed, talk
from tests.providers.chat_server import ChatServer, Reply, Request, asks_for_facts, well

SESSIONS = 12


def slowly(request: Request) -> Reply:
    return replace(well(request), delay=0.3)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A model that takes its time."""
    server = ChatServer()
    server.replies(then=slowly)
    with server.running():
        yield server


@pytest.fixture
def deployment(postgres: EmbeddedPostgres, tmp_path: Path, server: ChatServer) -> Iterator[Deployment]:
    """Workers that have the model."""
    with deployed(postgres, tmp_path, "language_model") as running:
        running.start_workers(
            names=("ingest", "embed", "summarize", "sweep"),
            BACKSCROLL_SESSION_SUMMARY_MODEL="small-1",
            BACKSCROLL_SESSION_SUMMARY_TIMEOUT_SECONDS="25",
            BACKSCROLL_LEASE_SECONDS="30",
            BACKSCROLL_OPENAI_BASE_URL=server.url,
            BACKSCROLL_OPENAI_API_KEY="secret",
        )
        yield running


def test_sessions_are_summarized_many_at_a_time_and_each_once(
    deployment: Deployment, server: ChatServer
) -> None:
    # Given a provider that fails once at some sessions
    failed: set[str] = set()

    def moody(request: Request) -> Reply:
        data = request["messages"][1]["content"]
        if (
            asks_for_facts(request)
            or data in failed
            or ("number 5," not in data and "number 15," not in data)
        ):
            return slowly(request)
        failed.add(data)
        return Reply(status=503, text="later", headers={"Retry-After": "1"})

    server.answer = moody
    deployment.accept_and_place("test:1", talk(5 * SESSIONS))
    # When they are due
    deployment.make_due()
    with clock(deployment):
        deployment.wait_for("test:1", 5 * SESSIONS)
    # Then each has the model's summary, by one call that was answered
    found = deployment.query(
        "SELECT status, summary_model FROM conversation_sessions WHERE message_count >= 4"
    )
    assert {tuple(row) for row in found} == {("summarized", "small-1")}
    assert len(found) == SESSIONS
    assert len(failed) == 2
    facts = [request for request in server.requests if asks_for_facts(request)]
    assert len(server.requests) == len(facts) + SESSIONS + 2
    # and was read for facts once
    assert len(facts) == SESSIONS
    found = deployment.query("SELECT DISTINCT facts_model FROM conversation_sessions")
    assert found == [("small-1",)]
    assert server.most_at_once > 4
    assert set(server.keys) == {"Bearer secret"}
