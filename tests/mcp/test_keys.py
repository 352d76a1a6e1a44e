"""What the owner of a key relies on: its tools are those of its scopes, in its chats, of its tenant, at any replica."""

from typing import Any

import anyio
import httpx
import pytest
from mcp.shared.exceptions import MCPError

from schemas.settings import Settings
from tests.api.conftest import problem_of, served
from tests.mcp.conftest import HOUSE, OFFICE, listed, over_http, over_stdio, talk, text_of, url_of

SCOPES = ("context", "read", "write", "erase")
ARGUMENTS = {"recall": {"chat_id": HOUSE, "query": "котёл"}}


def key(client: httpx.Client, *scopes: str, **limits: Any) -> str:
    """The secret of a new key."""
    made = client.post("/v1/keys", json={"label": "a model", "scopes": scopes} | limits)
    return str(made.json()["key"])


def test_without_a_key_that_is_known_nothing_is_answered(house: httpx.Client) -> None:
    # over HTTP before the body is read, without an invitation to OAuth
    for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": ""}):
        answer = house.post("/mcp", content=b"{", headers=headers)
        problem_of(answer, 401)
        assert answer.headers["www-authenticate"] == 'Bearer realm="backscroll"'
    # over stdio in words
    opens = over_stdio(url_of(house), key="wrong")

    async def ask() -> None:
        async with opens() as client:
            with pytest.raises(MCPError, match="unknown here, has expired or was revoked"):
                await client.list_tools()

    anyio.run(ask)
    (refused,) = talk(opens, ("chats", {}))
    assert "unknown here, has expired or was revoked" in text_of(refused)


def test_a_key_for_some_chats_is_told_which_and_reaches_no_other(house: httpx.Client) -> None:
    # Given a key with every scope, for one chat
    opens = over_http(url_of(house), key=key(house, *SCOPES, chats=[HOUSE]))
    # Then the tools are those that are about a chat, and name it
    tools = {tool.name: tool.input_schema["properties"]["chat_id"] for tool in listed(opens)}
    assert tools == {name: {"enum": [HOUSE]} for name in ("recall", "search", "read")}
    # And they answer about it
    recalled, *refused = talk(
        opens,
        *(
            (name, ARGUMENTS["recall"] | {"chat_id": chat})
            for name, chat in (("recall", HOUSE), ("recall", OFFICE))
        ),
        ("chats", {}),
        ("about", {"user_id": "Ann", "chat_id": OFFICE}),
    )
    assert "E41" in text_of(recalled)
    # And whatever else is named is refused
    assert all(answer.is_error and "only for some chats" in text_of(answer) for answer in refused)


def test_two_replicas_serve_one_client_by_turns(house: httpx.Client, settings: Settings) -> None:
    # Given a second replica on the same database, and a client whose requests go to each in turn
    with served(settings) as other:
        opens = over_http(url_of(house), url_of(other))
        # When it remembers with one and asks the other, again and again
        made = talk(
            opens,
            *(("remember", {"content": f"Заметка {n}: 猫", "scope": "organization"}) for n in range(4)),
        )
        ids = [answer.structured_content["id"] for answer in made]
        # Then each knows what the other has done
        gone = talk(opens, *(("forget", {"memory_id": each}) for each in ids))
        assert not any(answer.is_error for answer in gone)


def test_a_call_counts_as_one_request_of_the_key(house: httpx.Client) -> None:
    # Given a key that may make a request every ten seconds
    limited = {"Authorization": f"Bearer {key(house, 'context', 'read', requests_per_second=0.1)}"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    accept = {"Accept": "application/json, text/event-stream"}

    def call() -> httpx.Response:
        called = asked | {"params": {"name": "recall", "arguments": ARGUMENTS["recall"]}}
        return house.post("/mcp", json=called, headers=limited | accept)

    # When it calls a tool
    answer = call()
    # Then that is answered, and the next one is refused
    assert "E41" in answer.json()["result"]["content"][0]["text"]
    problem_of(call(), 429)
