"""What is turned down, and that it is told in one shape, with the field and the limit."""

import json
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pipeline.store.connections.database import Database
from schemas.memories import MAX_DOCUMENT_BYTES
from tests.api.conftest import CHAT, body, problem_of, said
from tests.harness.pipeline import rows
from tests.ops.running import until
from tests.waiting import rounds
from workers.api.access import LINGER_BYTES
from workers.api.bodies import LARGE_BODY_BYTES, LARGE_HELD, MAX_BODY_BYTES

MESSAGE, MEMORY = f"/v1/messages/{CHAT}/m1", {"scope": "organization", "content": "x"}
ASKED = {"chat_id": CHAT, "query": "x"}
DOCUMENT = {"document_id": "rules", "content": "x"}


@pytest.mark.parametrize(
    ("method", "path", "sent", "field"),
    [
        ("PATCH", MESSAGE, {}, "content"),
        ("DELETE", f"/v1/messages/{CHAT}/{'x' * 256}", None, "external_id"),
        ("POST", "/v1/context", ASKED | {"queries": ["x", "x" * 8001]}, "queries.1"),
        ("POST", "/v1/context", ASKED | {"parameters": {"messages": 101}}, "parameters.messages"),
        ("POST", "/v1/context", ASKED | {"profile": "ask", "topKDocs": 101}, "top_k_documents"),
        ("POST", "/v1/search", ASKED | {"mode": "wild"}, "mode"),
        ("POST", "/v1/documents", DOCUMENT | {"content": "x" * (MAX_DOCUMENT_BYTES + 1)}, "content"),
        ("POST", "/v1/documents", DOCUMENT | {"language": "klingon"}, "language"),
        ("GET", "/v1/entities?kind=ghost", None, "kind"),
        ("GET", "/v1/queries?chatid=x", None, "chatid"),
        ("POST", "/v1/forget", {"kind": "everything"}, "kind"),
        ("PUT", "/v1/users/test:1/memory", {"memory": 1}, "memory"),
        ("POST", "/v1/keys", {"label": "x", "scopes": ["admin"]}, "scopes.0"),
        ("POST", "/v1/keys", {"label": "x", "scopes": ["read"], "tenant": "other"}, "tenant"),
        ("POST", "/v1/memories", MEMORY | {"learned_in": "no:1"}, "learned_in"),
        ("PATCH", "/v1/memories/one", {"importance": 1}, "memory_id"),
    ],
)
def test_what_cannot_be_asked_for_is_named_by_its_field(
    standing_client: httpx.Client, method: str, path: str, sent: Any, field: str
) -> None:
    problem = problem_of(standing_client.request(method, path, json=sent), 422)
    assert problem["field"].startswith(field), problem


def test_a_field_by_the_name_that_other_routes_give_it_is_told_its_own(standing_client: httpx.Client) -> None:
    for sent, own in (({"chat_id": CHAT}, "learned_in"), ({"text": "Ἑλένη"}, "content")):
        problem = problem_of(
            standing_client.post("/v1/memories", json={"scope": "organization", **sent}), 422
        )
        assert f"did you mean {own}?" in problem["detail"]


def test_of_a_chat_that_nobody_knows_no_command_is_told(standing_client: httpx.Client) -> None:
    asked = {"chat_id": "test:nirgends", "query": "où ?"}
    detail = problem_of(standing_client.post("/v1/context", json=asked), 404)["detail"]
    assert detail == "there is no chat test:nirgends: a chat begins with its first message"


def test_characters_that_postgres_cannot_store_are_left_out(client: httpx.Client, database: Database) -> None:
    strange = said(1, "a\x00b\ud800c", sender_name="An\x00n", metadata={"k\x00": ["\udfff"]})
    answer = client.post(
        "/v1/messages", content=json.dumps(body(strange, chat={"chat_id": CHAT, "title": "\x00"}))
    )
    assert answer.status_code == 202, answer.text
    (row,) = rows(database, "SELECT content, sender_name, metadata FROM messages")
    assert tuple(row) == ("abc", "Ann", {"k": [""]})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
NAMES = st.sampled_from([*said(1), "position", "agent_id", "session_key", "closes_session", "metadata"])


@examples(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(NAMES, ANYTHING, min_size=1, max_size=3))
def test_whatever_stands_in_a_field_it_is_accepted_or_refused(
    standing_client: httpx.Client, changes: dict[str, Any]
) -> None:
    answer = standing_client.post("/v1/messages", content=json.dumps(body(said(1) | changes)))
    if answer.status_code != 202:
        problem_of(answer, 422)


KEY = b"Authorization: Bearer test-key\r\n"


def sending(client: httpx.Client, headers: bytes, size: int) -> socket.socket:
    """A connection on which a body of this size was announced."""
    connection = socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=10)
    connection.sendall(
        b"POST /v1/messages HTTP/1.1\r\nHost: api\r\n" + headers + f"Content-Length: {size}\r\n\r\n".encode()
    )
    return connection


def test_a_body_over_the_limit_is_refused_by_what_it_states(standing_client: httpx.Client) -> None:
    # Given a sender that announces 8 MiB and a byte, and waits before it sends them
    with sending(standing_client, KEY, MAX_BODY_BYTES + 1) as connection:
        # Then it is told before a byte of them was read
        answer = b""
        for _ in rounds("the refusal has come"):
            answer += connection.recv(65536)
            if answer.endswith(b"}"):
                break
    assert b" 413 " in answer.splitlines()[0]
    assert str(MAX_BODY_BYTES).encode() in answer
    # and so is somebody without the key
    with sending(standing_client, b"", 1_000_000) as connection:
        assert b" 401 " in connection.recv(65536)


def test_a_body_without_a_stated_size_is_refused_where_it_passes_the_limit(
    standing_client: httpx.Client,
) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while sent < 100 * MAX_BODY_BYTES:
            sent += 65536
            yield b" " * 65536

    try:
        answer = standing_client.post("/v1/messages", content=endless())
    except (httpx.WriteError, httpx.ReadError):
        # the connection was closed while we were still sending
        pass
    else:
        problem_of(answer, 413)
    # what is read on is thrown away, and has its end
    assert sent < MAX_BODY_BYTES + 2 * LINGER_BYTES
    assert standing_client.get("/healthz").status_code == 200


def test_a_sender_that_stalls_is_told_so(
    standing_client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.api.bodies.BODY_SECONDS", 0.2)
    with sending(standing_client, KEY, 100) as connection:
        connection.sendall(b"{")
        assert b" 408 " in connection.recv(65536)


def test_large_bodies_wait_for_their_turn_and_small_ones_do_not(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.api.bodies.TURN_SECONDS", 0.2)
    large = json.dumps(body(*(said(number, "x" * 200) for number in range(500))))
    assert len(large) > LARGE_BODY_BYTES
    with ExitStack() as stalled:
        # Given as many senders of large bodies as are read at once, which stall in the middle
        for _ in range(LARGE_HELD):
            connection = stalled.enter_context(sending(client, KEY, len(large)))
            connection.sendall(large[: LARGE_BODY_BYTES + 1].encode())

        def status() -> int:
            return client.post("/v1/messages", content=large).status_code

        # Then another one is told when to send it again
        until(lambda: status() == 503, "all turns are taken")
        refused = client.post("/v1/messages", content=large)
        assert "nothing is stored twice" in problem_of(refused, 503)["detail"]
        assert int(refused.headers["retry-after"]) > 0
        # and small ones are taken all the while
        assert client.post("/v1/messages", json=body(said(1))).status_code == 202
    # and when those have gone, so are large ones
    until(lambda: status() == 202, "turns are free")


def test_no_such_path_and_no_such_method_are_told_in_the_same_shape(standing_client: httpx.Client) -> None:
    assert problem_of(standing_client.get("/v1/nothing"), 404)["type"] == "urn:backscroll:problem:not-found"
    answer = standing_client.get("/v1/messages")
    assert problem_of(answer, 405)["type"] == "urn:backscroll:problem:method-not-allowed"
    assert answer.headers["allow"] == "POST"
    # all that a path has, whichever routes they are
    described = standing_client.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        answer = standing_client.request("OPTIONS", path.replace("{", "").replace("}", ""))
        allowed = set(answer.headers["allow"].split(", "))
        assert answer.status_code == 405
        # `search` may be the id of a memory, too, and `current` that of a key
        assert allowed >= {name.upper() for name in methods}, path
        assert path in {"/v1/memories/search", "/v1/keys/current"} or len(allowed) == len(methods), path
        assert "{" not in path or all("404" in each["responses"] for each in methods.values()), path


def test_an_answer_before_the_end_of_the_body_is_heard_on_a_connection_that_closes(
    standing_client: httpx.Client,
) -> None:
    # Given a client that asks for the connection to be closed, and sends all of its body before it reads
    sent = urllib.request.Request(  # noqa: S310 - our own server
        str(standing_client.base_url.join("/v1/messages")),
        data=b" " * 3 * MAX_BODY_BYTES,
        headers={"Authorization": "Bearer test-key", "Connection": "close"},
    )
    # Then it still reads why it was refused
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(sent, timeout=20)  # noqa: S310
    assert refused.value.code == 413
    refused.value.close()
