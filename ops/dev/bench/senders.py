"""Clients of the benchmark of accepting, each in a process of its own: light, so that they cost the machine little.

Each function gives how long its calls took, in seconds. `begin_at`: by `time.time`, so that clients begin together.
"""

import http.client
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing

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


def insert_each(dsn: str, tenant: str, chat: str, start: int, begin_at: float, seconds: float) -> list[float]:
    """Insert and commit messages one by one."""
    with psycopg.connect(dsn) as connection:

        def insert(number: int) -> None:
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
            name, text = f"{chat}-{start + number}", TEXT.format(start + number)
            connection.execute(INSERT, [tenant, chat, name, text])
            connection.commit()

        return _repeated(insert, begin_at, seconds)


def post_each(
    port: int, key: str, chat: str, start: int, size: int, begin_at: float, seconds: float, pause: float = 0
) -> list[float]:
    """Post messages over one connection, `size` in a request."""
    with closing(_connected(port)) as client:

        def posted(number: int) -> None:
            first = start + number * size
            post(client, key, chat, range(first, first + size))

        return _repeated(posted, begin_at, seconds, pause=pause)


def post(client: http.client.HTTPConnection, key: str, chat: str, numbers: Sequence[int]) -> None:
    """Post these messages in one request. Raises `RuntimeError` when they are not accepted."""
    said = [
        {**_SAID, "external_id": f"{chat}-{number}", "content": TEXT.format(number)} for number in numbers
    ]
    _send(client, key, "POST", "/v1/messages", json.dumps({"chat": chat, "messages": said}))


def post_large(port: int, key: str, chat: str, begin_at: float, seconds: float) -> list[float]:
    """Post requests of 8 MB, one after the other."""
    texts = [
        " ".join(TEXT.format(number * 1000 + flat) for flat in range(LARGE_BYTES // len(TEXT)))[:LARGE_BYTES]
        for number in range(LARGE_MESSAGES)
    ]
    with closing(_connected(port)) as client:

        def posted(turn: int) -> None:
            said = [
                {**_SAID, "external_id": f"large-{turn}-{number}", "content": text}
                for number, text in enumerate(texts)
            ]
            _send(client, key, "POST", "/v1/messages", json.dumps({"chat": chat, "messages": said}))

        return _repeated(posted, begin_at, seconds)


def delete_each(port: int, key: str, chat: str, begin_at: float, seconds: float, pause: float) -> list[float]:
    """Delete messages of a chat one by one, which must be there."""
    with closing(_connected(port)) as client:

        def delete(number: int) -> None:
            _send(client, key, "DELETE", f"/v1/messages/{chat}/{chat}-{number}")

        return _repeated(delete, begin_at, seconds, pause=pause)


def send_worst(port: int, key: str, sent: Sequence[tuple[str, str]], begin_at: float) -> list[float]:
    """Send these `(path, body)` one after the other by new connections, whatever is answered."""

    def send(number: int) -> None:
        path, body = sent[number]
        with closing(_connected(port)) as client:
            client.request("POST", path, body=body.encode(), headers=_headers(key))
            client.getresponse().read()

    left = iter(sent)
    return _repeated(send, begin_at, goes_on=lambda: next(left, None) is not None)


def ask_health(port: int, begin_at: float, pause: float, while_exists: str) -> list[float]:
    """Ask for `/healthz` by new connections while there is a file of this name."""

    def ask(_number: int) -> None:
        with closing(_connected(port)) as client:
            client.request("GET", "/healthz")
            client.getresponse().read()

    # not by pathlib: every import costs
    return _repeated(ask, begin_at, pause=pause, goes_on=lambda: os.path.exists(while_exists))  # noqa: PTH110


def _repeated(
    call: Callable[[int], None],
    begin_at: float,
    seconds: float = math.inf,
    *,
    pause: float = 0,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[float]:
    """Call with 0, 1, … from a moment on, for some seconds and while it goes on; how long each call took."""
    time.sleep(max(0.0, begin_at - time.time()))
    until = time.monotonic() + seconds
    took: list[float] = []
    while time.monotonic() < until and goes_on():
        began = time.monotonic()
        call(len(took))
        took.append(time.monotonic() - began)
        if pause:
            time.sleep(pause)
    return took


def _connected(port: int) -> http.client.HTTPConnection:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    client.connect()
    return client


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
