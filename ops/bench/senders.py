"""Clients of the benchmark of accepting, each in a process of its own: light, so that they cost the machine little."""

import http.client
import json
import time
from collections.abc import Sequence

import psycopg

INSERT = """
    INSERT INTO messages (tenant_id, chat_id, external_id, session_key, sender_id, sender_name, role, content,
        token_count, sent_at, position, language, metadata)
    VALUES (%s, %s, %s, '', 'bench:ann', 'Ann', 'user', %s, 12, now(), 0, 'english', '{}')
    ON CONFLICT (tenant_id, chat_id, external_id) DO NOTHING
"""
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
        {
            "external_id": f"{chat}-{number}",
            "sender_id": "bench:ann",
            "sender_name": "Ann",
            "content": TEXT.format(number),
            "sent_at": "2026-03-02T18:00:00Z",
        }
        for number in numbers
    ]
    body = json.dumps({"chat": chat, "messages": said})
    client.request(
        "POST",
        "/v1/messages",
        body=body,
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    answer = client.getresponse()
    told = answer.read()
    if answer.status != http.client.ACCEPTED:
        raise RuntimeError(f"{answer.status}: {told.decode(errors='replace')[:500]}")


def _wait(begin_at: float) -> None:
    time.sleep(max(0.0, begin_at - time.time()))
