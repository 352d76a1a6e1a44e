"""Whatever bytes lie in a queue, a worker gets a task that it can run."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.virtual import Channel, Message

from workers.envelope import INGEST, WAKE_UPS, acceptable_id, read
from workers.queues import ACCEPT, EMBED, QUEUES

NOW = datetime.now(UTC)
PAYLOAD = {"v": 1, "chat": "test:1", "messages": [{"content": "the boiler shows E4"}]}
plain = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([INGEST, "base64"])
)
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
PARTS = (
    *((name,) for name in ("body", "content-type", "content-encoding", "headers", "properties")),
    *(("headers", name) for name in ("task", "id", "eta", "expires", "compression", "refused", "request_id")),
    *(("properties", name) for name in ("body_encoding", "delivery_tag", "delivery_info", "priority")),
)


def message(body: object = (), **headers: object) -> dict[str, Any]:
    """A message as Celery sends it."""
    text = json.dumps(body or [[], PAYLOAD, {}])
    return {
        "body": base64.b64encode(text.encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": INGEST, "id": "7", **headers},
        "properties": {"body_encoding": "base64", "delivery_tag": "x", "delivery_info": {"exchange": "x"}},
    }


def taken(item: bytes, queue: str = ACCEPT.full_name) -> tuple[dict[str, Any], list[Any]]:
    """The headers and the body of what a worker gets, as kombu decodes them."""
    raw = read(item, queue, NOW)
    assert json.loads(json.dumps(raw)) == raw
    channel = Channel.__new__(Channel)
    decoded = Message(raw, channel=channel)
    decoded.accept = {"application/json"}
    assert decoded.errors == []
    return decoded.headers, decoded.payload


def is_task(headers: dict[str, Any], body: list[Any]) -> bool:
    args, kwargs, embed = body
    well_formed = isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embed, dict)
    return well_formed and headers["task"] in WAKE_UPS and acceptable_id(headers["id"]) is not None


@given(
    item=st.binary() | values.map(lambda value: json.dumps(value).encode()),
    queue=st.sampled_from(list(QUEUES)),
)
def test_any_bytes_become_a_task_that_is_refused(item: bytes, queue: str) -> None:
    headers, body = taken(item, QUEUES[queue].full_name)
    assert is_task(headers, body)
    assert headers["refused"]


@given(part=st.sampled_from(PARTS), value=values, queue=st.sampled_from([ACCEPT, EMBED]))
def test_any_value_in_any_part_of_a_message_leaves_a_task(
    part: tuple[str, ...], value: Any, queue: Any
) -> None:
    changed = message()
    within = changed if len(part) == 1 else changed[part[0]]
    within[part[-1]] = value
    headers, body = taken(json.dumps(changed).encode(), queue.full_name)
    assert is_task(headers, body)
    # nothing is dropped: it is refused, with what was sent, or it is the payload
    assert headers.get("refused") or (body[1] == PAYLOAD and queue is ACCEPT)


def test_what_a_worker_gets_is_itself_read_again_after_its_death() -> None:
    once = read(json.dumps(message(task="backscroll.ingset")).encode(), ACCEPT.full_name, NOW)
    once["properties"]["delivery_info"]["redelivered"] = True
    again = read(json.dumps(once).encode(), ACCEPT.full_name, NOW)
    assert again["headers"] == once["headers"]
    assert again["body"] == once["body"]
    assert again["properties"]["delivery_info"]["redelivered"]
    # and nothing of the sender's can mix it up with another task
    assert again["properties"]["delivery_tag"] != once["properties"]["delivery_tag"]


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_celery_sends_is_taken(protocol: int, compression: str | None) -> None:
    # Given what each protocol and compression of Celery puts into Redis
    sent: list[bytes] = []
    with Celery(broker="memory://") as bot:
        bot.conf.task_protocol = protocol
        with bot.connection_for_write() as connection:
            channel = connection.default_channel
            channel.body_encoding = "base64"
            channel._put = lambda _queue, raw, **_: sent.append(json.dumps(raw).encode())
            options = {"queue": ACCEPT.full_name, "compression": compression, "connection": connection}
            bot.send_task(INGEST, kwargs=PAYLOAD, countdown=60, **options)
    headers, body = taken(sent[0])
    assert "refused" not in headers
    assert body[:2] == [[], PAYLOAD]
    assert datetime.fromisoformat(headers["eta"]).tzinfo


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (
            {"task": "backscroll.ingset"},
            "there is no task backscroll.ingset for bots: send backscroll.ingest",
        ),
        (
            {"task": "backscroll.forget"},
            "there is no task backscroll.forget for bots: send backscroll.ingest",
        ),
        ({"eta": "soon"}, "its eta is no time in ISO 8601"),
        ({"expires": 5}, "its expires is no time in ISO 8601"),
        ({"eta": (NOW + timedelta(days=2)).isoformat()}, "its eta is more than a day ahead"),
    ],
)
def test_a_payload_that_is_refused_is_kept_with_the_reason(headers: dict[str, Any], reason: str) -> None:
    got, body = taken(json.dumps(message(**headers)).encode())
    assert (got["refused"], body[1]) == (reason, PAYLOAD)


def test_of_what_is_no_json_nothing_is_kept_but_its_size() -> None:
    headers, body = taken(b"\x80\x04 the boiler shows E4")
    assert body == [[], {}, {}]
    assert headers["refused"].startswith("it cannot be read: ")
    assert "(22 bytes, SHA-256 " in headers["refused"]
    assert "boiler" not in headers["refused"]


def test_only_accept_takes_payloads_and_only_the_others_wake_ups() -> None:
    wake_up = message([[], {}, {}], task="backscroll.embed")
    for item, queue, is_refused in (
        (wake_up, EMBED, False),
        (wake_up, ACCEPT, True),
        (message(), QUEUES["ingest"], True),
        (message([[1], {}, {}], task="backscroll.embed"), EMBED, True),
        (message([["after"], {}, {}], task="backscroll.prune"), QUEUES["backfill"], False),
    ):
        headers, _ = taken(json.dumps(item).encode(), queue.full_name)
        assert ("refused" in headers) == is_refused, (item, queue)


def test_a_sender_sets_no_time_limit() -> None:
    headers, _ = taken(json.dumps(message(timelimit=[1, 1], shadow="the boiler", origin="x")).encode())
    assert not {"timelimit", "shadow", "origin"} & headers.keys()
