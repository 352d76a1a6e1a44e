"""Clients of the benchmark of accepting, each in a process of its own: light, so that they cost the machine little."""

import http.client
import json
import os
import time
from collections.abc import Sequence

import psycopg

INSERT = """
    INSERT INTO messages (tenant_id, chat_id, external_id, session_key, sender_id, sender_name, role, content,
        token_count, sent_at, position, language, metadata)
    VALUES (%s, %s, %s, '', 'bench:ann', 'Ann', 'user', %s, 12, now(), 0, 'english', '{}')
    ON CONFLICT (tenant_id, chat_id, external_id) DO NOTHING
"""
_SAID = {"sender_id": "bench:ann", "sender_name": "Ann", "sent_at": "2026-03-02T18:00:00Z"}
LARGE_MESSAGES, LARGE_BYTES = 125, 65_000
TEXT = "Could somebody look at the boiler in flat {}? It has lost pressure again, 0.8 bar now."


def insert_alone(
    dsn: str, tenant: str, chat: str, start: int, begin_at: float, seconds: float
) -> list[float]:
    """Insert and commit messages one by one; how long each took, in seconds."""
    took = []
    with psycopg.connect(dsn) as connection:
        _wait(begin_at)
        number, until = start, time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
            connection.execute(INSERT, [tenant, chat, f"{chat}-{number}", TEXT.format(number)])
            connection.commit()
            took.append(time.monotonic() - began)
            number += 1
    return took


def post_alone(
    port: int, key: str, chat: str, start: int, size: int, begin_at: float, seconds: float, pause: float = 0
) -> list[float]:
    """Post messages over one connection, `size` in a request; how long each request took, in seconds."""
    took = []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.connect()
    _wait(begin_at)
    number, until = start, time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        post(client, key, chat, range(number, number + size))
        took.append(time.monotonic() - began)
        number += size
        if pause:
            time.sleep(pause)
    client.close()
    return took


def post(client: http.client.HTTPConnection, key: str, chat: str, numbers: Sequence[int]) -> None:
    """Post these messages in one request. Raises `RuntimeError` when they are not accepted."""
    said = [
        {**_SAID, "external_id": f"{chat}-{number}", "content": TEXT.format(number)} for number in numbers
    ]
    _send(client, key, "POST", "/v1/messages", json.dumps({"chat": chat, "messages": said}))


def post_large(port: int, key: str, chat: str, begin_at: float, seconds: float) -> list[float]:
    """Post requests of 8 MB, one after the other; how long each took, in seconds."""
    took = []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    texts = [_large(number) for number in range(LARGE_MESSAGES)]
    _wait(begin_at)
    round_number, until = 0, time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        said = [
            {**_SAID, "external_id": f"large-{round_number}-{number}", "content": text}
            for number, text in enumerate(texts)
        ]
        _send(client, key, "POST", "/v1/messages", json.dumps({"chat": chat, "messages": said}))
        took.append(time.monotonic() - began)
        round_number += 1
    client.close()
    return took


def delete_alone(
    port: int, key: str, chat: str, begin_at: float, seconds: float, pause: float
) -> list[float]:
    """Delete messages of a chat one by one, which must be there; how long each took, in seconds."""
    took = []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    client.connect()
    _wait(begin_at)
    number, until = 0, time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        _send(client, key, "DELETE", f"/v1/messages/{chat}/{chat}-{number}")
        took.append(time.monotonic() - began)
        number += 1
        time.sleep(pause)
    client.close()
    return took


def send_worst(port: int, key: str, sent: Sequence[tuple[str, str]], begin_at: float) -> list[float]:
    """Send these `(path, body)` one after the other, whatever is answered; how long each took, in seconds."""
    took = []
    _wait(begin_at)
    for path, body in sent:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        began = time.monotonic()
        client.request("POST", path, body=body.encode(), headers=_headers(key))
        answer = client.getresponse()
        answer.read()
        took.append(time.monotonic() - began)
        client.close()
    return took


def ask_health(port: int, begin_at: float, pause: float, while_exists: str) -> list[float]:
    """Ask for `/healthz` by new connections while there is a file of this name; how long each took, in seconds."""
    took = []
    _wait(begin_at)
    while os.path.exists(while_exists):  # noqa: PTH110 - every import costs
        began = time.monotonic()
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        client.request("GET", "/healthz")
        client.getresponse().read()
        client.close()
        took.append(time.monotonic() - began)
        time.sleep(pause)
    return took


def _large(number: int) -> str:
    """A long text of ordinary words, 64 KB less a little."""
    return " ".join(TEXT.format(number * 1000 + flat) for flat in range(LARGE_BYTES // len(TEXT)))[
        :LARGE_BYTES
    ]


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


def _send(
    client: http.client.HTTPConnection, key: str, method: str, path: str, body: str | None = None
) -> None:
    """Send a request. Raises `RuntimeError` when it does not succeed."""
    client.request(method, path, body=body, headers=_headers(key))
    answer = client.getresponse()
    told = answer.read()
    if answer.status not in (http.client.OK, http.client.ACCEPTED):
        raise RuntimeError(f"{answer.status}: {told.decode(errors='replace')[:500]}")


def _wait(begin_at: float) -> None:
    time.sleep(max(0.0, begin_at - time.time()))
