"""What bots have queued and could not be accepted is seen by an operator, queued again as it came, or dropped."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_client
from celery import Celery
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from pipeline.operations import retention
from pipeline.store.connections.database import Database
from schemas.errors import PayloadRefused
from schemas.people import Subject
from schemas.settings import Settings
from tests.commands.conftest import Run, talk
from tests.conftest import TENANT
from tests.harness.jobs import kill
from workers import resources
from workers.app import make_app
from workers.queues import ACCEPT
from workers.resources import Resources

SECRET = "chrysanthemum"
Refuse = Callable[..., None]


def payload(version: object = 2, **fields: Any) -> dict[str, Any]:
    said = {"external_id": "1", "sender_id": "test:7", "content": SECRET, "sent_at": 1777300000}
    return {"v": version, "chat": "test:1", "messages": [said, said | {"external_id": "2"}], **fields}


@pytest.fixture
def broker(settings: Settings) -> Iterator["redis_client.Redis"]:
    """Redis, without anything that waits in this queue."""
    assert settings.redis_url is not None
    with redis_client.Redis.from_url(settings.redis_url.get_secret_value()) as client:
        client.delete(ACCEPT.full_name)
        yield client
        client.delete(ACCEPT.full_name)


@pytest.fixture
def app(
    settings: Settings, broker: "redis_client.Redis", monkeypatch: pytest.MonkeyPatch
) -> Iterator[Celery]:
    held = Resources(settings)
    monkeypatch.setattr(resources, "_current", held)
    made = make_app(settings)
    made.loader.import_default_modules()
    yield made
    made.close()
    held.database.close()


@pytest.fixture
def refuse(app: Celery) -> Refuse:
    """Does with a payload that cannot be accepted what a worker does."""

    def refuse(*args: Any, **fields: Any) -> None:
        with pytest.raises(PayloadRefused):
            app.tasks["backscroll.ingest"](*args, **fields)

    return refuse


def refused(database: Database, tenant: str = TENANT) -> list[str]:
    """What the tenant's refused payloads say."""
    with database.tenant(tenant) as connection:
        return list(connection.scalars(text("SELECT payload FROM refused_payloads ORDER BY refused_at")))


def test_a_refused_payload_is_a_dead_letter_whose_text_is_shown_on_demand_alone(
    run: Run, refuse: Refuse
) -> None:
    refuse(**payload())
    listed = run("jobs", "list", "--state", "dead", "--json")
    (item,) = listed.json["jobs"]
    assert (item["kind"], item["state"], item["tenant_id"]) == ("payload", "dead", TENANT)
    assert item["error"].startswith("version 2, 2 messages: v: Input should be 1")
    assert SECRET not in listed.out + run("jobs", "list").out
    shown = run("jobs", "show", "payload", item["key"], "--json").json
    assert shown["payload"] == {"args": [], "kwargs": payload()}
    (letter,) = run("status", "--json").json["dead_letters"]
    assert (letter["kind"], letter["key"]) == ("payload", item["key"])


def test_a_text_that_is_too_long_is_stored_without_its_end_and_counted(
    app: Celery, database: Database
) -> None:
    # whoever sends a task hears of no refusal
    sent = payload(1)
    sent["messages"][1] |= {"content": "долго " * 9000, "sender_name": "я" * 300}
    done = app.tasks["backscroll.ingest"].apply(kwargs=sent).get()
    assert done == {"accepted": 2, "duplicates": 0, "kept_out": 0}
    with database.tenant(TENANT) as connection:
        stored = connection.execute(text("SELECT content, metadata FROM messages WHERE external_id = '2'"))
        content, metadata = stored.one()
        names = connection.scalars(text("SELECT name FROM daily_counters WHERE name LIKE 'left_out%'")).all()
    assert content.endswith(" долго… [cut: 99000 bytes]")
    assert metadata == {"original_bytes": 99_000}
    assert names == ["left_out:other:cut"]


def test_what_is_replayed_is_queued_exactly_as_it_came_and_stays_there_if_its_worker_dies(
    run: Run, refuse: Refuse, broker: "redis_client.Redis", app: Celery, database: Database
) -> None:
    given = payload(note="пётр 😀\0", size=12345678901234567890, empty=[], nothing={}, half="\ud83d")
    refuse(**given)
    (item,) = run("jobs", "list", "--json").json["jobs"]
    assert run("jobs", "show", f"payload:{item['key']}").code == 0
    done = run("jobs", "replay", f"payload:{item['key']}", "--json").json
    assert [each["key"] for each in done["replayed"]] == [item["key"]]
    (queued,) = map(json.loads, broker.lrange(ACCEPT.full_name, 0, -1))
    assert (queued["headers"]["argsrepr"], queued["headers"]["kwargsrepr"]) == ("()", "{…}")
    # Given a worker that takes it and goes away without a word
    with app.connection_for_read() as connection:
        taken = connection.SimpleQueue(ACCEPT.full_name).get(timeout=5)
        assert taken.payload[:2] == [[], given]
    # Then it is there for another, and not among the dead letters
    assert (broker.llen(ACCEPT.full_name), refused(database)) == (1, [])
    assert run("jobs", "replay", f"payload:{item['key']}").code == 3


def test_of_two_who_replay_the_same_one_does(refuse: Refuse, database: Database) -> None:
    for number in range(25):
        refuse(**payload(number=number))
    items, _ = dead_letters.listing(database, None, JobFilter())
    assert len(items) == 25
    queued: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        done = list(
            pool.map(
                lambda _: dead_letters.replay(database, items, lambda given, _trace: queued.append(given)),
                range(2),
            )
        )
    assert len(set(queued)) == len(queued) == 25
    assert sum(len(each.items) for each in done) == 25


def test_a_full_redis_loses_none(
    run: Run, refuse: Refuse, broker: "redis_client.Redis", database: Database
) -> None:
    refuse(**payload())
    broker.config_set("maxmemory", "1mb")
    try:
        run("jobs", "replay", "--all", "--yes")
    finally:
        broker.config_set("maxmemory", "0")
    assert broker.llen(ACCEPT.full_name) + len(refused(database)) == 1


def test_payloads_and_work_are_one_list_and_only_named_payloads_are_dropped(
    run: Run, refuse: Refuse, database: Database
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
    assert refused(database) == []


@pytest.mark.parametrize(
    "subject",
    [
        Subject(kind="message", chat_id="test:1", external_id="2"),
        Subject(kind="user", sender_id="8"),
        Subject(kind="chat", chat_id="test:1"),
        Subject(kind="tenant", confirm=TENANT),
    ],
    ids=lambda subject: f"{subject.kind}-{subject.sender_id}",
)
def test_forgetting_takes_the_refused_payloads_that_mention_the_forgotten(
    refuse: Refuse, database: Database, subject: Subject
) -> None:
    # Given one that is about the forgotten, and others of other chats, people and tenants
    refuse(**payload(note={"sender_id": 8}))
    other = {
        "chat": "test:10",
        "messages": [{"sender_id": "test:70", "external_id": "20"}, {"sender_id": 80}],
    }
    refuse(v=2, **other)
    refuse(**payload(tenant="acme"))
    receipt = forget.start(database, TENANT, subject)
    assert receipt.counts["payloads"] == (2 if subject.kind == "tenant" else 1)
    assert len(refused(database)) == (0 if subject.kind == "tenant" else 1)
    assert len(refused(database, "acme")) == 1


@pytest.mark.parametrize(("message_days", "left"), [(None, 1), (3, 0)])
def test_refused_payloads_expire_with_the_messages_in_them(
    refuse: Refuse, database: Database, settings: Settings, message_days: int | None, left: int
) -> None:
    refuse(**payload(number=1))
    refuse(**payload(number=2))
    aged = "UPDATE refused_payloads SET refused_at = now() - make_interval(days => :days) WHERE payload LIKE :number"
    with database.tenant(TENANT) as connection:
        for number, days in ((1, 40), (2, 5)):
            connection.execute(text(aged), {"days": days, "number": f'%"number": {number}%'})
    keep = retention.retention_of(settings.model_copy(update={"retention_days": message_days}))
    assert retention.prune(database, TENANT, keep)["refused_payloads"] == 2 - left
    assert len(refused(database)) == left
