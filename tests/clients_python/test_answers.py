"""What each answer means: for a message that waits, for its caller, and for who asks."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from backscroll_client import (
    ApiFailed,
    BackscrollError,
    Forbidden,
    KeyRefused,
    NotFound,
    Refused,
    Unavailable,
)

from tests.clients_python.doubles import HTML, PROBLEM, Api, problem

MESSAGE: Any = {"external_id": "1", "sender_id": "x", "content": "?"}
OTHER = {"type": "about:blank", "title": "Unprocessable", "status": 422, "detail": "No."}
OWN = OTHER | {"type": "urn:backscroll:problem:invalid-input"}
NO_PATH = problem(404, "Not Found", "not-found")

FAULTS = [
    (problem(400), Refused),
    (problem(409), Refused),
    (problem(413), Refused),
    (problem(422), Refused),
    (problem(404, "there are no events of a platform 'x'"), NotFound),
]
KEYS = [(problem(401), KeyRefused), (problem(403), Forbidden)]
OUTAGES: list[httpx.Response | Exception] = [
    *(
        httpx.Response(status, text="<html>", headers=HTML)
        for status in (200, 202, 204, 302, 400, 401, 403, 404, 408)
    ),
    *(httpx.Response(status, text="No.") for status in (409, 413, 422, 429, 500, 502, 503, 504, 520)),
    # Backscroll's own
    *(problem(status, **{"Retry-After": "5"}) for status in (408, 409, 429, 503)),
    *(problem(status) for status in (405, 415, 418, 429, 431, 500, 503)),
    NO_PATH,
    # another's problem, and its words as something else
    httpx.Response(422, json=OTHER, headers=PROBLEM),
    httpx.Response(422, json=OWN, headers={"Content-Type": "application/json"}),
    httpx.Response(422, json=[OWN], headers=PROBLEM),
    httpx.Response(422, content=b"{", headers=PROBLEM),
    # a success that is none
    httpx.Response(202, json={"accepted": True}),
    httpx.Response(202, json={"accepted": "1"}),
    httpx.Response(202, json={"outcome": "edited"}),
    httpx.Response(202, json={}),
    httpx.Response(202, json="accepted"),
    httpx.Response(202, content=b'{"accepted": 1'),
    httpx.Response(202, content=b"[" * 100_000),
    httpx.Response(200, json={"accepted": 1}),
    httpx.Response(202, content=b'{"accepted": \xff}'),
    # nothing
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("late"),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("cut short"),
    httpx.DecodingError("no gzip"),
    httpx.InvalidURL("no host"),
]


def answering(answer: httpx.Response | Exception) -> Api:
    def fault(request: httpx.Request, api: Api) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    api = Api()
    api.ill[""] = api.ill["telegram:1"] = fault
    return api


@pytest.mark.parametrize("answer", OUTAGES, ids=str)
def test_what_is_not_its_own_fault_lets_a_message_wait(
    answer: httpx.Response | Exception, tmp_path: Path
) -> None:
    api = answering(answer)
    with api.client(tmp_path / "buffer") as memory:
        assert memory.add("telegram:1", MESSAGE) is False
        assert memory.flush() is False
        assert (memory.waiting, memory.set_aside()) == (1, [])
        with pytest.raises(Unavailable):
            memory.search("telegram:1", "?")
        api.ill = {}
        assert memory.flush() is True
    # as without a buffer
    with answering(answer).client() as memory, pytest.raises(Unavailable):
        memory.add("telegram:1", MESSAGE)
    assert api.kept == {"telegram:1": ["1"]}


@pytest.mark.parametrize(("answer", "error"), FAULTS)
def test_its_own_fault_is_told_or_set_aside(
    answer: httpx.Response, error: type[BackscrollError], tmp_path: Path
) -> None:
    api = answering(answer)
    with api.client(tmp_path / "buffer") as memory:
        with pytest.raises(error):
            memory.add("telegram:1", MESSAGE)
        with pytest.raises(error):
            memory.search("telegram:1", "?")
        assert (memory.waiting, memory.set_aside()) == (0, [])
        # which one that waited nobody else is told
        api.ill["telegram:1"] = lambda request, api: problem(503)
        memory.add("telegram:1", MESSAGE)
        api.ill["telegram:1"] = lambda request, api: answer
        assert memory.flush() is True
        (aside,) = memory.set_aside()
        assert (aside.method, aside.path, aside.reason) == ("POST", "/v1/messages", answer.json()["detail"])


@pytest.mark.parametrize(("answer", "error"), KEYS)
def test_what_the_key_may_not_waits_and_its_caller_is_told(
    answer: httpx.Response, error: type[BackscrollError], tmp_path: Path
) -> None:
    api = answering(answer)
    with api.client(tmp_path / "buffer") as memory:
        for _ in range(2):
            with pytest.raises(error, match=r"No\. What was handed over waits in the buffer"):
                memory.add("telegram:1", MESSAGE)
        with pytest.raises(error):
            memory.flush()
        with pytest.raises(error):
            memory.search("telegram:1", "?")
        assert (memory.waiting, memory.set_aside()) == (2, [])


def test_each_change_and_question_takes_only_its_own_receipt(tmp_path: Path) -> None:
    changes: list[tuple[str, tuple[Any, ...], httpx.Response]] = [
        ("add", ("telegram:1", MESSAGE), httpx.Response(202, json={"accepted": 0})),
        ("edit", ("telegram:1", "1", "!"), httpx.Response(202, json={"outcome": "new in a later version"})),
        ("delete", ("telegram:1", "1"), httpx.Response(200, json={"outcome": "deleted"})),
        ("event", ("telegram", {"update_id": 1}), httpx.Response(200, json={"accepted": 0})),
        ("search", ("telegram:1", "?"), httpx.Response(200, json={"hits": []})),
        ("remember", ("He is.",), httpx.Response(201, json={"outcome": "new"})),
        ("remember", ("He is.",), httpx.Response(200, json={"outcome": "known"})),
        ("forget_user", ("x",), httpx.Response(202, json={"id": 1})),
        ("about", ("x",), httpx.Response(200, json={"user_id": "x"})),
        ("latest", ("telegram:1",), httpx.Response(200, json={"messages": []})),
    ]
    for name, values, receipt in changes:
        for other in [answer for _, _, answer in changes]:
            api = answering(other)
            api.ill["/v1/events/telegram"] = api.ill[""]
            with api.client() as memory:
                try:
                    getattr(memory, name)(*values)
                except ApiFailed:
                    assert other is not receipt
                else:
                    assert other.json().keys() == receipt.json().keys()
                    assert other.status_code == receipt.status_code or name == "remember"


def test_an_event_of_which_something_is_broken_is_not_committed(tmp_path: Path) -> None:
    broken = [{"where": "message", "reason": "content: too long"}, {"where": "chat", "reason": "odd"}]
    api = Api()
    update = {"update_id": 1, "message": {"chat": {"id": 1}}}
    api.ill["telegram:1"] = lambda request, api: httpx.Response(200, json={"accepted": 0, "broken": broken})
    with api.client(tmp_path / "buffer") as memory:
        with pytest.raises(Refused, match="message: content: too long; chat: odd") as refused:
            memory.event("telegram", update)
        assert refused.value.field == "message"
        assert (memory.waiting, memory.set_aside()) == (0, [])
        # and where it waited it is set aside, and can be sent again
        api.ill["telegram:1"], after = lambda request, api: problem(503), api.ill["telegram:1"]
        assert memory.event("telegram", update) is False
        api.ill["telegram:1"] = after
        assert memory.flush() is True
        assert "content: too long" in memory.set_aside()[0].reason
        api.ill = {}
        assert memory.send_again() == 1
        assert memory.flush() is True
    assert api.kept == {"telegram:1": ["event 1"]}
