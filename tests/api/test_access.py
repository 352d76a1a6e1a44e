"""Whatever becomes of a request, it has an id, one line in the log, and an end that its sender understands."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from schemas.errors import NotFound
from workers.api import access
from workers.api.access import HEADER, AccessLog

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
PIECE: Message = {"type": "http.response.body", "body": b"half", "more_body": True}
END: Message = {"type": "http.response.body", "body": b"all"}

Lines = list[dict[str, Any]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    written: Lines = []
    monkeypatch.setattr(
        access, "write_line", lambda _, level, **fields: written.append(fields | {"level": level})
    )
    return written


def answered(
    *messages: Message, error: Exception | None = None, headers: dict[str, str] | None = None, **scope: Any
) -> list[Message]:
    """What is sent to whoever asks an application that answers this, and then fails."""
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(dict(message))
        if error:
            raise error

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    given = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    asked = {"type": "http", "method": "GET", "path": "/v1/chats/telegram:7", "headers": given} | scope
    try:
        asyncio.run(AccessLog(app)(asked, receive, send))
    except RuntimeError:
        sent.append({"type": "broken"})
    return sent


def id_of(start: Message) -> str:
    return dict(start["headers"])[HEADER.lower().encode()].decode()


def test_every_answer_has_an_id_the_senders_own_if_it_is_fit_for_one(lines: Lines) -> None:
    first, other = (id_of(answered(START, END)[0]) for _ in range(2))
    assert first
    assert first != other
    assert id_of(answered(START, END, headers={HEADER: "bot-12"})[0]) == "bot-12"
    assert id_of(answered(START, END, headers={HEADER: "two words"})[0]) not in {"", "two words"}


def test_a_query_has_a_hundred_parameters_and_no_more(lines: Lines) -> None:
    answers = [answered(START, END, query_string=b"&".join(count * [b"a=b"])) for count in (100, 101)]
    assert [messages[0]["status"] for messages in answers] == [200, 422]
    assert "at most 100 parameters" in json.loads(answers[1][-1]["body"])["detail"]


def test_a_line_tells_the_time_that_the_answer_took(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([50.0, 52.12345])
    monkeypatch.setattr(access, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    answered(START, END)
    assert lines[0]["milliseconds"] == 2123.4


def test_a_request_has_one_line_without_what_names_people(lines: Lines) -> None:
    route = type("Route", (), {"path": "/v1/chats/{chat_id}"})()
    answered(START, END, route=route, client=("192.0.2.7", 50000), query_string=b"q=secret")
    (line,) = lines
    assert 0 <= line.pop("milliseconds") < 60_000
    assert line == {
        "event": "request",
        "level": "info",
        "method": "GET",
        "path": "/v1/chats/{chat_id}",
        "status": 200,
        "client": "192.0.2.7",
    }
    # nobody knows what a path means that is no route's
    answered(START, END)
    assert (lines[-1]["path"], lines[-1]["client"]) == ("unknown", "")
    # health checks come every few seconds
    answered(START, END, path="/healthz")
    assert lines[-1]["level"] == "debug"
    # and what is no request, as the start of the server, has none
    answered(type="lifespan")
    assert len(lines) == 3


def test_an_error_before_the_answer_is_a_problem_and_one_within_it_breaks_the_connection(
    lines: Lines,
) -> None:
    start, body = answered(error=NotFound("there is no chat x"))
    problem = json.loads(body["body"])
    assert (start["status"], problem["detail"]) == (404, "there is no chat x")
    assert problem["request_id"] == id_of(start)
    # the rest will not come: to end as if all were said would be a lie
    assert [each["type"] for each in answered(START, PIECE, error=RuntimeError("defect"))] == [
        "http.response.start",
        "http.response.body",
        "broken",
    ]
    # whoever left is told nothing
    assert answered(error=ClientDisconnect()) == []
    assert [line["status"] for line in lines] == [404, 200, 0]
