"""Tasks that a bot has sent to a list that nobody reads are seen, and moved to where they are read."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_client
from celery import Celery
from prometheus_client import CollectorRegistry

from schemas.settings import Settings
from tests.commands.conftest import Run
from workers import broker
from workers.metrics import families
from workers.queues import ACCEPT, QUEUES

PAYLOAD = {"v": 1, "chat": "test:1", "messages": [{"content": "the boiler shows E4"}]}


@pytest.fixture
def redis_of_its_own(settings: Settings) -> Iterator["redis_client.Redis"]:
    """Redis with nothing in it."""
    assert settings.redis_url is not None
    with redis_client.Redis.from_url(settings.redis_url.get_secret_value()) as client:
        client.flushdb()
        yield client
        client.flushdb()


@pytest.fixture
def forgetful(settings: Settings, redis_of_its_own: "redis_client.Redis") -> None:
    """Bots that have named no queue, or a wrong one, and lists of others beside theirs."""
    assert settings.redis_url is not None
    with Celery(broker=settings.redis_url.get_secret_value()) as bot:
        for number in range(3):
            bot.send_task("backscroll.ingest", kwargs=PAYLOAD | {"number": number})
        bot.send_task("backscroll.ingest", kwargs=PAYLOAD | {"number": 3}, priority=9)
        bot.send_task("backscroll.ingest", kwargs=PAYLOAD, queue="backscroll.acept")
        bot.send_task("backscroll.ingest", kwargs=PAYLOAD, queue=ACCEPT.full_name, priority=5)
    redis_of_its_own.rpush("somebody's", "a", "b")
    redis_of_its_own.set("celery.text", "no list")
    redis_of_its_own.rpush(b"\xff", "c")
    redis_of_its_own.lpush("4711.reply.celery.pidbox", '{"body": "an answer"}')


def test_status_doctor_and_metrics_name_the_lists_that_nobody_reads(
    run: Run, settings: Settings, forgetful: None
) -> None:
    unread = {"backscroll.acept": 1, "celery": 4}
    told = run("status", "--workers", "--json").json["redis"]
    assert told["unread"] == unread
    # whatever priority a task has, it waits in its queue
    assert told["queues"]["accept"] == 1
    assert "4 tasks wait in the list celery, which no worker reads" in run("status", "--workers").out
    found = [f for f in json.loads(run("doctor", "--json").out)["findings"] if f["check"] == "unread"]
    assert [f["severity"] for f in found] == ["warning"] * 2
    assert "`backscroll jobs move celery`" in found[1]["remedy"]
    # without asking the workers it is not known who reads what
    assert run("status", "--json").json["redis"]["unread"] == {}
    registry = CollectorRegistry()

    class Shown:
        def collect(self) -> Any:
            return families.of_redis(broker.look(settings, workers=True))

    registry.register(Shown())  # type: ignore[arg-type]
    for name, tasks in unread.items():
        assert registry.get_sample_value("backscroll_unread_tasks", {"list": name}) == tasks


def test_what_lies_in_such_a_list_is_moved_in_its_order(
    run: Run, forgetful: None, redis_of_its_own: "redis_client.Redis"
) -> None:
    assert run("jobs", "move", "celery", "--yes", "--json").json == {"moved": 4}
    bodies = [json.loads(task)["body"] for task in redis_of_its_own.lrange(ACCEPT.full_name, 0, -1)]
    numbers = [json.loads(b64decode(body))[1]["number"] for body in reversed(bodies)]
    assert numbers == [0, 1, 2, 3]
    # then there is none there, and others' lists are left alone
    for name in ("celery", "somebody's", "nothing", *(queue.full_name for queue in QUEUES.values())):
        refused = run("jobs", "move", name, "--yes")
        assert (refused.code, "see `backscroll doctor`" in refused.err) == (3, True), name
    assert redis_of_its_own.llen("somebody's") == 2
