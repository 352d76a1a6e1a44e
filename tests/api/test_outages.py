"""What a sender sees while Postgres or Redis is away, or the workers are behind."""

import threading
import time
from collections.abc import Callable

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from migrations import REVISION
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import free_port
from pipeline.ingest import place
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import api_keys
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn
from schemas.settings import Settings
from tests.api.conftest import CHAT, away, body, problem_of, said
from tests.conftest import TENANT, refusing
from tests.waiting import ended, until
from workers.api import admission

Serve = Callable[[Settings], httpx.Client]


def test_with_postgres_away_the_sender_comes_again_and_nothing_is_lost_or_doubled(
    serve: Serve, settings: Settings, postgres: EmbeddedPostgres, database_name: str
) -> None:
    # Given an API that started before Postgres did
    with away(postgres, database_name):
        client = serve(settings)
        assert client.get("/readyz").json()["postgres"] == "unreachable"
    assert client.post("/v1/messages", json=body(said(1))).json()["accepted"] == 1
    # When Postgres goes away
    with away(postgres, database_name):
        for path, sent in (
            ("/v1/messages", body(said(1), said(2))),
            ("/v1/context", {"chat_id": CHAT, "query": "Who is there?"}),
        ):
            answer = client.post(path, json=sent)
            assert problem_of(answer, 503)["type"] == "urn:backscroll:problem:unavailable"
            assert int(answer.headers["retry-after"]) > 0
            # what the error of the driver says stays inside
            assert database_name not in answer.text
        unready = client.get("/readyz")
        assert unready.status_code == 503
        assert unready.json() == {"status": "not ready", "postgres": "unreachable", "redis": "ok"}
        assert client.get("/healthz").status_code == 200
    # Then the same request works when it is back
    again = client.post("/v1/messages", json=body(said(1), said(2)))
    assert again.status_code == 202
    assert (again.json()["accepted"], again.json()["duplicates"]) == (1, 1)
    assert client.get("/readyz").status_code == 200


def test_without_redis_messages_are_accepted_at_once(serve: Serve, settings: Settings) -> None:
    away = settings.model_copy(update={"redis_url": SecretStr(f"redis://127.0.0.1:{free_port()}/0")})
    client = serve(away)
    started = time.monotonic()
    for n in range(5):
        assert client.post("/v1/messages", json=body(said(n))).status_code == 202
    # a try to reach Redis takes two seconds; no sender waits for one
    assert time.monotonic() - started < 2
    unready = client.get("/readyz")
    assert unready.status_code == 503
    assert unready.json() == {"status": "not ready", "postgres": "ok", "redis": "unreachable"}


# `backscroll doctor` tells the others of `REFUSALS` apart
def test_a_redis_that_answers_and_refuses_is_told_and_messages_are_accepted(
    client: httpx.Client, redis: EmbeddedRedis
) -> None:
    for number, (how, state) in enumerate({"a replica": "read_only", "no scripts": "misconfigured"}.items()):
        with refusing(redis, how):
            # what is known of it is looked at anew every second
            until(lambda state=state: client.get("/readyz").json()["redis"] == state, state)
            assert client.get("/readyz").status_code == 503
            assert client.post("/v1/messages", json=body(said(number, "Привет 👋"))).status_code == 202
        until(lambda: client.get("/readyz").status_code == 200, "it is ready again")


def test_a_database_at_another_migration_or_that_takes_no_writes_is_told(
    client: httpx.Client, postgres: EmbeddedPostgres, database_name: str
) -> None:
    with psycopg.connect(postgres.superuser_dsn(database_name)) as server:
        server.execute("UPDATE alembic_version SET version_num = '0000'")
    told = client.get("/readyz").json()
    assert (told["status"], told["postgres"], told["redis"]) == ("not ready", "outdated", "ok")
    assert "backscroll db upgrade" in told["remedy"]
    # and nothing is tried on them
    refused = client.post("/v1/messages", json=body())
    assert "Retry-After" in refused.headers
    assert "not those that this version needs" in problem_of(refused, 503)["detail"]
    # and so is one that takes no writes
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as server:
        server.execute(f"UPDATE alembic_version SET version_num = '{REVISION}'")
        server.execute(f"ALTER DATABASE {database_name} SET default_transaction_read_only = on")
        # what is connected already was so before; a fail-over ends connections as well
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'backscroll_app' AND "
            "datname = current_database()"
        )
    until(lambda: client.get("/readyz").json()["postgres"] == "read_only", "it takes no writes")
    refused = client.post("/v1/messages", json=body(said(1, "Привет 👋")))
    assert "Postgres takes no writes." in problem_of(refused, 503)["detail"]


def test_a_defect_tells_the_sender_an_id_and_nothing_else(
    client: httpx.Client,
    postgres: EmbeddedPostgres,
    database_name: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # Given a table that is gone, which nothing foresees
    with psycopg.connect(postgres.superuser_dsn(database_name)) as server:
        server.execute("DROP TABLE arrivals")
    answer = client.post("/v1/messages", json=body(said(1, "quiet words")), headers={"X-Request-ID": "r-500"})
    problem = problem_of(answer, 500)
    assert problem["type"] == "urn:backscroll:problem:internal"
    assert "arrivals" not in answer.text
    # and the log has where it happened by that id, but not what was said
    logged = capfd.readouterr().out
    assert "r-500" in logged
    assert "UndefinedTable" in logged or "42P01" in logged
    assert "admission.py" in logged
    assert "quiet" not in logged


def test_senders_wait_while_the_workers_are_behind(
    serve: Serve,
    settings: Settings,
    database: Database,
    rules: SessionPolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # how many wait is counted for each request
    monkeypatch.setattr(admission, "COUNT_SECONDS", 0.0)
    client = serve(settings.model_copy(update={"backlog_max_messages": 3}))
    # Given more messages than may wait
    assert client.post("/v1/messages", json=body(*(said(n) for n in range(4)))).status_code == 202
    # Then no more are taken
    answer = client.post("/v1/messages", json=body(said(5)))
    problem = problem_of(answer, 503)
    assert problem["type"] == "urn:backscroll:problem:overloaded"
    assert "3 messages" in problem["detail"]
    assert int(answer.headers["retry-after"]) > 0
    # nor does another tenant wait for that
    other = api_keys.create(database, "other", KeyIn(label="other", scopes=["ingest"]))
    key = {"Authorization": f"Bearer {other.key}"}
    assert client.post("/v1/messages", json=body(said(5)), headers=key).status_code == 202
    # until they are placed
    with database.tenant(TENANT) as connection:
        place.place(connection, TENANT, {CHAT: None}, rules)
    assert client.post("/v1/messages", json=body(*(said(n) for n in range(5, 9)))).status_code == 202
    # Given a chat that cannot be placed, other chats are heard
    with database.maintenance() as connection:
        connection.execute(text("UPDATE jobs SET due_at = NULL, dead_at = now() WHERE kind = 'ingest'"))
    assert client.post("/v1/messages", json=body(said(5), chat="test:other")).status_code == 202


def test_a_large_request_that_ends_midway_goes_on_where_it_ended(
    serve: Serve, settings: Settings, database: Database, postgres: EmbeddedPostgres, database_name: str
) -> None:
    client = serve(settings)
    assert client.post("/v1/messages", json=body(said(0))).status_code == 202
    request = body(*(said(n) for n in range(1, 1001)))
    answers: list[httpx.Response] = []
    with psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        # Given somebody who keeps the last message from being stored
        rival.execute(
            """
            INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, role, content, token_count, sent_at)
            VALUES (%s, %s, 'm1000', 'test:rival', 'user', 'mine', 1, now())
            """,
            [TENANT, CHAT],
        )
        sending = threading.Thread(target=lambda: answers.append(client.post("/v1/messages", json=request)))
        sending.start()
        # When the connection to Postgres is lost while it waits
        with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as observer:
            locks = "SELECT pid FROM pg_locks WHERE NOT granted"
            waits = until(lambda: observer.execute(locks).fetchone(), "the request waits for the message")
            observer.execute("SELECT pg_terminate_backend(%s)", [waits[0]])
        ended(sending)
        rival.rollback()
    # Then the sender is told to come again, and nothing that is not so
    problem = problem_of(answers[0], 503)
    assert "send the same request again" in problem["detail"].lower()
    assert "nothing was" not in problem["detail"].lower()
    with database.tenant(TENANT) as connection:
        stored = connection.execute(text("SELECT count(*) FROM messages")).scalar_one()
    assert 1 < stored < 1001
    # and the same again stores the rest, once
    again = client.post("/v1/messages", json=request).json()
    assert (again["accepted"], again["duplicates"]) == (1001 - stored, stored - 1)
    with database.tenant(TENANT) as connection:
        assert connection.execute(text("SELECT count(*) FROM messages")).scalar_one() == 1001
        assert connection.execute(text("SELECT count(*) FROM arrivals")).scalar_one() == 1001
        counted = "SELECT sum(value) FROM daily_counters WHERE name = 'messages_accepted'"
        assert connection.execute(text(counted)).scalar_one() == 1001
