"""What bots have queued and could not be accepted is seen by an operator, queued again as it came, or dropped."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_client
from celery import Celery

from pipeline.jobs.dead_letters import Filter
from pipeline.store.database import Database
from schemas.settings import Settings
from tests.commands.conftest import Run
from tests.commands.test_work import kill, talk
from tests.conftest import TENANT
from workers import letters
from workers.app import make_app
from workers.queues import ACCEPT, DEAD

SECRET = "chrysanthemum"
Refuse = Callable[..., None]


def payload(version: object = 2, **fields: Any) -> dict[str, Any]:
    said = {"external_id": "1", "sender_id": "test:7", "content": SECRET, "sent_at": 1777300000}
    return {"v": version, "chat": "test:1", "messages": [said, said | {"external_id": "2"}], **fields}


@pytest.fixture
def broker(settings: Settings) -> Iterator["redis_client.Redis"]:
    """Redis, without anything that waits in these queues."""
    assert settings.redis_url is not None
    with redis_client.Redis.from_url(settings.redis_url.get_secret_value()) as client:
        client.delete(DEAD, ACCEPT.full_name)
        yield client
        client.delete(DEAD, ACCEPT.full_name)


@pytest.fixture
def app(settings: Settings, broker: "redis_client.Redis") -> Iterator[Celery]:
    made = make_app(settings)
    made.loader.import_default_modules()
    yield made
    made.close()


@pytest.fixture
def refuse(app: Celery) -> Refuse:
    """Does with a payload that cannot be accepted what a worker does."""
    return lambda *args, **fields: app.tasks["backscroll.ingest"](*args, **fields)


def lengths(broker: "redis_client.Redis") -> tuple[Any, Any]:
    return broker.llen(DEAD), broker.llen(ACCEPT.full_name)


def test_a_refused_payload_is_a_dead_letter_whose_text_is_shown_on_demand_alone(
    run: Run, refuse: Refuse
) -> None:
    refuse(**payload())
    listed = run("jobs", "list", "--state", "dead", "--json")
    (item,) = listed.json["jobs"]
    assert (item["kind"], item["state"], item["version"], item["messages"]) == ("payload", "dead", "2", 2)
    assert item["tenant_id"] == TENANT
    assert "v: Input should be 1" in item["error"]
    assert item["since"]
    assert item["trace_id"]
    for_people = run("jobs", "list").out
    for expected in (item["key"], "version 2, 2 messages", "v: Input should be 1"):
        assert expected in for_people
    assert SECRET not in listed.out + for_people
    assert SECRET in run("jobs", "show", f"payload:{item['key']}").out
    shown = run("jobs", "show", "payload", item["key"], "--json").json
    assert shown["payload"] == {"args": [], "kwargs": payload()}
    assert "1 payloads could not be accepted" in run("status").out
    assert "jobs replay --all --kind payload" in run("doctor").out


def test_what_is_replayed_is_queued_exactly_as_it_came_and_stays_there_if_its_worker_dies(
    run: Run, refuse: Refuse, broker: "redis_client.Redis", app: Celery
) -> None:
    given = payload(note="пётр 😀", size=12345678901234567890, empty=[], nothing={})
    refuse(**given)
    (before,) = map(json.loads, broker.lrange(DEAD, 0, -1))
    (item,) = run("jobs", "list", "--json").json["jobs"]
    done = run("jobs", "replay", f"payload:{item['key']}", "--json").json
    assert [each["key"] for each in done["replayed"]] == [item["key"]]
    assert lengths(broker) == (0, 1)
    (after,) = map(json.loads, broker.lrange(ACCEPT.full_name, 0, -1))
    assert after["body"] == before["body"]
    del before["headers"]["refused"]
    assert after["headers"] == before["headers"]
    # Given a worker that takes it and goes away without a word
    with app.connection_for_read() as connection:
        taken = connection.SimpleQueue(ACCEPT.full_name).get(timeout=5)
        assert taken.payload[1] == given
    # Then it is there for another, and not among the dead letters
    assert lengths(broker) == (0, 1)
    assert run("jobs", "replay", f"payload:{item['key']}").code == 3


def test_of_two_who_replay_the_same_one_does(
    refuse: Refuse, broker: "redis_client.Redis", app: Celery
) -> None:
    for number in range(25):
        refuse(**payload(number=number))
    keys = {letter.key for letter in letters.listing(app, None, TENANT, Filter())}
    assert len(keys) == 25
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: letters.replay(app, keys), range(2)))
    assert lengths(broker) == (0, 25)
    assert sum(map(len, done)) == 25


def test_a_full_redis_loses_none(run: Run, refuse: Refuse, broker: "redis_client.Redis") -> None:
    refuse(**payload())
    broker.config_set("maxmemory", "1mb")
    try:
        run("jobs", "replay", "--all", "--yes")
    finally:
        broker.config_set("maxmemory", "0")
    assert sum(lengths(broker)) == 1


def test_payloads_are_chosen_by_error_age_and_tenant(run: Run, refuse: Refuse) -> None:
    refuse(**payload())
    refuse(**payload(1, tenant="acme", chat={}))
    refuse(**payload(tenant="no such\x00tenant"))
    refuse(payload())
    listed = run("jobs", "list", "--kind", "payload", "--json").json["jobs"]
    assert [item["tenant_id"] for item in listed] == [TENANT, "acme", TENANT, TENANT]
    assert [item["version"] for item in listed] == ["2", "1", "2", None]
    for options, expected in (
        (["--error", "CHAT_ID"], 1),
        (["--older-than", "1h"], 0),
        (["--tenant", "acme"], 1),
        (["--tenant", TENANT], 3),
        (["--state", "retrying"], 0),
        (["--kind", "embed"], 0),
        (["--limit", "2"], 4),
    ):
        assert run("jobs", "list", "--json", *options).json["total"] == expected, options


def test_payloads_and_work_are_one_list_and_only_named_payloads_are_dropped(
    run: Run, refuse: Refuse, database: Database, broker: "redis_client.Redis"
) -> None:
    talk(database)
    kill(database, "ingest")
    refuse(**payload())
    listed = run("jobs", "list", "--json").json
    assert ([item["kind"] for item in listed["jobs"]], listed["total"]) == (["ingest", "payload"], 2)
    dropped = run("jobs", "drop", "--all", "--yes", "--json").json
    assert (dropped["dropped"], len(dropped["left"])) == ([], 2)
    dropped = run("jobs", "drop", "--all", "--kind", "payload", "--yes", "--json").json
    assert [item["kind"] for item in dropped["dropped"]] == ["payload"]
    refuse(**payload())
    (item,) = run("jobs", "list", "--kind", "payload", "--json").json["jobs"]
    assert run("jobs", "drop", f"payload:{item['key']}", "--yes").code == 0
    assert lengths(broker) == (0, 0)


def test_whatever_else_lies_in_the_queue_is_shown_and_never_queued(
    run: Run, refuse: Refuse, broker: "redis_client.Redis"
) -> None:
    refuse(**payload(text="half \ud83d of a pair"))
    for junk in (b"{}", b"\xff", b"[1, 2]", b'{"body": "!", "headers": {}, "properties": {}}'):
        broker.lpush(DEAD, junk)
    listed = run("jobs", "list", "--json").json["jobs"]
    assert [item["error"] for item in listed].count("not a task of a bot") == 4
    for item in listed:
        for options in ([], ["--json"]):
            assert run("jobs", "show", f"payload:{item['key']}", *options).code == 0
    done = run("jobs", "replay", "--all", "--yes", "--json").json
    assert (len(done["replayed"]), len(done["left"])) == (1, 4)
    assert lengths(broker) == (4, 1)


def test_without_redis_the_ledgers_dead_letters_are_shown_and_it_says_so(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(database)
    kill(database, "ingest")
    monkeypatch.setenv("BACKSCROLL_REDIS_URL", "redis://127.0.0.1:1/0")
    listed = run("jobs", "list", "--json")
    assert listed.json["total"] == 1
    assert "Redis does not answer" in listed.err
    assert run("jobs", "list", "--kind", "payload").code == 1
