"""However much is owed, the sweep keeps the queues short."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis as redis_client
from celery import Celery
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from schemas.errors import JobsFailed
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.processes.conftest import talk
from tests.processes.nodes import RedisProcess
from workers import queues, resources
from workers.app import make_app
from workers.queues import OF_KIND
from workers.resources import Resources
from workers.tasks import MAX_WAITING_SWEEPS

amounts = st.dictionaries(st.sampled_from(sorted(OF_KIND)), st.integers(0, 600))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RedisProcess]:
    server = RedisProcess(tmp_path)
    yield server
    server.end()


@pytest.fixture
def app(broker: RedisProcess, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """The application without any worker: nobody takes hints out of the queues."""
    settings = settings.model_copy(update={"redis_url": SecretStr(broker.url), "rollups_enabled": True})
    held = Resources(settings)
    monkeypatch.setattr(resources, "_current", held)
    with make_app(settings) as app:
        app.loader.import_default_modules()
        yield app
    held.database.close()


def owe(database: Database, owed: Mapping[str, int]) -> None:
    """Let so many jobs of each kind, and no others, be due."""
    with database.tenant(TENANT) as connection:
        connection.execute(text("DELETE FROM jobs"))
        connection.execute(
            text("INSERT INTO tenants (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING"), {"t": TENANT}
        )
        for kind, rows in owed.items():
            jobs.enqueue(connection, TENANT, kind, [f"{kind}:{n}" for n in range(rows)])


@hypothesis_settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owed=amounts, hinted=amounts, sweeps=st.integers(1, 2))
def test_no_kind_gets_more_hints_than_twice_its_workers_and_none_waits_for_another(
    app: Celery,
    broker: RedisProcess,
    database: Database,
    owed: dict[str, int],
    hinted: dict[str, int],
    sweeps: int,
) -> None:
    # Given so much work, and so many hints that wait already
    owe(database, owed)
    with redis_client.Redis.from_url(broker.url) as client:
        client.flushdb()
        for kind, waiting in hinted.items():
            queues.wake_up(app, kind, times=waiting % 50)
        for _ in range(sweeps):
            app.tasks["backscroll.sweep"]()
        names = {queue.full_name for queue in OF_KIND.values()}
        tasks = [json.loads(task) for name in names for task in client.lrange(name, 0, -1)]
    after = Counter(task["headers"]["task"].removeprefix("backscroll.") for task in tasks)
    for kind, queue in OF_KIND.items():
        # Then none has more for it, and every one has what there is to do
        assert after[kind] <= max(hinted.get(kind, 0) % 50, 2 * queue.concurrency)
        assert after[kind] >= min(-(-owed.get(kind, 0) // queue.batch), 2 * queue.concurrency)


def test_no_hint_goes_out_for_what_waits_for_a_setting(
    app: Celery, broker: RedisProcess, database: Database
) -> None:
    held = resources.current()
    held.settings = held.settings.model_copy(update={"session_memory_enabled": False})
    owe(database, {"summarize": 40, "extract": 40, "embed": 1})
    with redis_client.Redis.from_url(broker.url) as client:
        app.tasks["backscroll.sweep"]()
        assert client.llen(queues.SUMMARIZE.full_name) == 0
        assert client.llen(queues.EMBED.full_name) == 1
    # and one that comes all the same finds out why at once
    assert app.tasks["backscroll.summarize"]() == "waits: BACKSCROLL_SESSION_MEMORY_ENABLED is off"


def test_neither_foreign_messages_nor_sweeps_that_have_piled_up_stop_the_sweep(
    app: Celery, broker: RedisProcess, database: Database
) -> None:
    owe(database, {"embed": 1})
    queue = queues.SWEEP.full_name
    with redis_client.Redis.from_url(broker.url) as client:
        # Given something that is no sweep before the one that comes to its turn
        for foreign in (b'{"headers": ["task"]}', b"[" * 10**5):
            client.flushdb()
            client.rpush(queue, foreign)
            app.send_task("backscroll.sweep", queue=queue)
            # Then the sweep does its own, and leaves the others where they were
            app.tasks["backscroll.sweep"]()
            assert client.llen(queues.EMBED.full_name) == 1
            assert client.llen(queue) == 2
            assert client.lrange(queue, -1, -1) == [foreign]
        # And given more sweeps than one outage needs
        client.flushdb()
        for _ in range(MAX_WAITING_SWEEPS + 1):
            app.send_task("backscroll.sweep", queue=queue)
        # Then it does nothing, while so many wait behind
        app.tasks["backscroll.sweep"]()
        assert client.llen(queues.EMBED.full_name) == 0
        client.rpop(queue)
        app.tasks["backscroll.sweep"]()
        assert client.llen(queues.EMBED.full_name) == 1


def test_a_task_that_did_nothing_but_fail_has_failed_with_the_reason_and_without_what_was_said(
    app: Celery, database: Database
) -> None:
    owe(database, {})
    with database.tenant(TENANT) as connection:
        jobs.enqueue(connection, TENANT, "forget", ["каша"])
    with pytest.raises(JobsFailed, match=r"^1 failed: ValueError") as told:
        app.tasks["backscroll.forget"]()
    assert "каша" not in str(told.value)


def test_a_full_redis_stops_no_sweep(app: Celery, broker: RedisProcess) -> None:
    with redis_client.Redis.from_url(broker.url) as client:
        client.config_set("maxmemory", "1")
        app.tasks["backscroll.sweep"]()
        assert queues.seconds_since_sweep(app) is None
        client.config_set("maxmemory", "0")
        app.tasks["backscroll.sweep"]()
    since = queues.seconds_since_sweep(app)
    assert since is not None
    assert 0 <= since < 30


@pytest.mark.parametrize("debounce", [0, 5])
def test_no_hint_goes_out_for_a_summary_that_waits(
    app: Celery, broker: RedisProcess, database: Database, debounce: float
) -> None:
    held = resources.current()
    held.settings = held.settings.model_copy(update={"summarize_debounce_seconds": debounce})
    held.rules = SessionPolicy.of(held.settings)
    # Given messages of two sessions, of which the first has ended
    told = [MessageIn.model_validate(one) for one in talk(10)]
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), told)
    # When they are placed, then the vectors may be made now, the summaries after the debounce
    resources.run(app, "ingest")
    with redis_client.Redis.from_url(broker.url) as client:
        assert client.llen(queues.EMBED.full_name) == 1
        # one to summarize, one to learn
        assert client.llen(queues.SUMMARIZE.full_name) == (0 if debounce else 2)


def test_what_a_worker_took_whose_clock_is_ahead_comes_back_as_soon_as_anything_else(
    app: Celery, broker: RedisProcess, database: Database
) -> None:
    with redis_client.Redis.from_url(broker.url) as client:
        now = client.time()[0]
        client.zadd("unacked_index", {"ahead": now + 1800, "behind": now - 1800, "right": now})
        app.tasks["backscroll.sweep"]()
        assert now <= client.zscore("unacked_index", "ahead") <= client.time()[0]
        assert client.zscore("unacked_index", "behind") == now - 1800
        assert client.zscore("unacked_index", "right") == now
