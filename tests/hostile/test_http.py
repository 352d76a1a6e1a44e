"""The HTTP API with the hostile tenant's key: every route that it describes, with the ids of another and with SQL."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.conftest import served
from tests.hostile.caller import THEMES, Caller, Theme
from tests.hostile.conftest import Stage
from tests.hostile.victims import SECRET, SHARED_CHAT

# It goes over the wire as JSON: a lone surrogate as its escape.
METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[httpx.Client]:
    """With the key of the hostile tenant."""
    with served(stage.settings) as client:
        yield client


def _message(a: Caller) -> dict[str, Any]:
    return {
        "external_id": a.name("messages", "external_id"),
        "sender_id": a.name("messages", "sender_id"),
        "sender_name": a.text[:200],
        "content": a.text,
        "session_key": a.name("session_closes", "session_key"),
        "closes_session": True,
        "sent_at": "2026-03-02T18:30:00Z",
        "metadata": {a.text[:100]: a.text},
    }


def _webhook(a: Caller) -> dict[str, Any]:
    """A webhook with the victim's ids in every place."""
    return {
        "type": "message.created",
        "timestamp": "2026-03-02T18:30:00Z",
        "data": {"chat": a.chat_id, "messages": [_message(a)]},
    }


# What goes into a path, and what is sent, by their names in the description.
IN_PATH: dict[str, Callable[[Caller], str]] = {
    "chat_id": lambda a: a.chat_id,
    "external_id": lambda a: a.name("messages", "external_id"),
    "context_id": lambda a: a.name("query_log", "context_id"),
    "user_id": lambda a: a.name("users", "user_id"),
    "sender_id": lambda a: a.name("messages", "sender_id"),
    "receipt": lambda a: a.number("forget_receipts"),
    "document_id": lambda a: a.name("memories", "document_id"),
    "memory_id": lambda a: a.number("memories"),
    "name": lambda a: a.name("messages", "sender_id"),
    "key_id": lambda a: a.number("api_keys"),
    "platform": lambda _: "standard",
    "source_id": lambda a: a.name("sources", "source_id"),
    "transaction": lambda a: a.word("1"),
}
# What is asked for behind the question mark; what is not there is left out.
IN_QUERY: dict[str, Callable[[Caller], str]] = {
    "scope": lambda a: a.word("user"),
    "user_id": lambda a: a.name("users", "user_id"),
    "agent_id": lambda a: a.name("memories", "agent_id"),
    "chat_id": lambda a: a.chat_id,
    "after": lambda a: a.number("memories"),
    "type": lambda a: a.word("fact"),
    "source": lambda a: a.word("chat"),
    "session_key": lambda a: a.name("messages", "session_key"),
    "until": lambda a: a.word("2100-01-01T00:00:00Z"),
    "as_of": lambda a: a.word("2100-01-01T00:00:00Z"),
    "superseded": lambda a: a.word("true"),
    "status": lambda a: a.word("closed"),
    "kind": lambda a: a.word("place"),
    "by": lambda a: a.word("week"),
    "periods": lambda a: a.word("12"),
    "limit": lambda a: a.word("100"),
}


def _tool(name: str, **given: Callable[[Caller], Any]) -> Callable[[Caller], dict[str, Any]]:
    return lambda a: {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {field: value(a) for field, value in given.items()}},
    }


BODIES: dict[tuple[str, str], list[Callable[[Caller], dict[str, Any]]]] = {
    ("post", "/v1/messages"): [
        lambda a: {"chat": a.chat_id, "messages": [_message(a)]},
        lambda a: {
            "tenant": "victim",
            "chat": {"chat_id": a.chat_id, "title": a.text},
            "messages": [_message(a)],
        },
    ],
    ("patch", "/v1/messages/{chat_id}/{external_id}"): [
        lambda a: {"content": a.text, "edited_at": "2100-01-01T00:00:00Z"}
    ],
    ("post", "/v1/documents"): [
        lambda a: {
            "document_id": a.name("memories", "document_id"),
            "content": a.text,
            "source": a.text[:255],
        }
    ],
    ("post", "/v1/context"): [
        lambda a: {
            "chat_id": SHARED_CHAT,
            "query": a.text,
            "user_id": a.maybe("messages", "sender_id"),
            "explain": True,
        },
        lambda a: {
            "chat_id": a.chat_id,
            "query": a.text,
            "session_key": a.maybe("session_closes", "session_key"),
        },
    ],
    ("post", "/v1/search"): [
        lambda a: {"chat_id": SHARED_CHAT, "query": a.text, "sender_ids": a.names("messages", "sender_id")},
        lambda a: {"chat_id": SHARED_CHAT, "query": a.text, "session_id": a.id("conversation_sessions")},
        lambda a: {"chat_id": SHARED_CHAT, "query": a.text, "mode": "exact", "metadata": {"note": a.text}},
        lambda a: {"chat_id": a.chat_id, "query": "lighthouse", "mode": "topic"},
    ],
    ("post", "/v1/more"): [
        lambda a: {"chat_id": SHARED_CHAT, "session_id": a.id("conversation_sessions")},
        lambda a: {
            "chat_id": a.chat_id,
            "session_id": a.id("conversation_sessions"),
            "shown": a.ids("messages"),
        },
    ],
    ("post", "/v1/memories"): [
        lambda a: {
            "scope": "user",
            "user_id": a.name("users", "user_id"),
            "content": a.text,
            "learned_in": a.chat_id,
        },
        lambda a: {"scope": "session", "session_id": a.id("conversation_sessions"), "content": a.text},
    ],
    ("post", "/v1/memories/search"): [
        lambda a: {"query": a.text, "user_id": a.name("users", "user_id"), "source": a.text[:255]},
        lambda a: {"query": "lighthouse", "chat_id": SHARED_CHAT, "metadata": {"note": a.text}},
        lambda a: {"query": "lighthouse", "chat_id": a.chat_id},
    ],
    ("patch", "/v1/memories/{memory_id}"): [lambda a: {"content": a.text, "metadata": {"note": a.text}}],
    ("post", "/v1/memories/{memory_id}/promote"): [
        lambda _: {"scope": "organization"},
        lambda a: {"scope": "user", "user_id": a.name("users", "user_id")},
    ],
    ("post", "/v1/memories/{memory_id}/correct"): [
        lambda _: {},
        lambda a: {"content": a.text, "chat_id": a.chat_id},
    ],
    ("put", "/v1/users/{user_id}/senders/{sender_id}"): [lambda _: {}],
    ("post", "/v1/users/{user_id}/merge"): [
        lambda a: {"into": a.name("users", "user_id")},
        lambda a: {"into": "test:mallory"},
    ],
    ("put", "/v1/chats/{chat_id}/members"): [lambda a: {"members": a.names("messages", "sender_id")}],
    ("post", "/v1/forget"): [
        lambda a: {"kind": "chat", "chat_id": a.chat_id},
        lambda a: {"kind": "user", "sender_id": a.name("messages", "sender_id")},
        lambda a: {"kind": "message", "chat_id": a.chat_id, "external_id": a.name("messages", "external_id")},
        lambda a: {"kind": a.text},
    ],
    ("put", "/v1/chats/{chat_id}/memory"): [lambda _: {"memory": False}],
    ("put", "/v1/chats/{chat_id}/language"): [
        lambda _: {"language": "german"},
        lambda a: {"language": a.text},
    ],
    ("post", "/v1/chats/{chat_id}/rename"): [lambda a: {"to": a.chat_id}, lambda a: {"to": a.text}],
    ("post", "/v1/events/{platform}"): [_webhook],
    ("post", "/v1/events/{platform}/{source_id}"): [_webhook],
    ("put", "/v1/events/matrix/{source_id}/_matrix/app/v1/transactions/{transaction}"): [
        lambda a: {"events": [{"type": "m.room.redaction", "room_id": a.chat_id, "redacts": a.text}]}
    ],
    ("post", "/v1/sources"): [lambda a: {"platform": "telegram", "label": a.text[:100]}],
    ("put", "/v1/users/{user_id}/memory"): [lambda _: {"memory": False}],
    ("post", "/v1/contexts/{context_id}/answer"): [
        lambda a: {"answer": a.text, "used": a.names("messages", "external_id"), "remember": True}
    ],
    ("post", "/mcp"): [
        _tool("recall", chat_id=lambda _: SHARED_CHAT, query=lambda a: a.text),
        _tool("recall", chat_id=lambda a: a.chat_id, query=lambda a: a.text),
        _tool("search", chat_id=lambda a: a.chat_id, query=lambda _: "lighthouse"),
        _tool(
            "read",
            chat_id=lambda _: SHARED_CHAT,
            session_id=lambda a: a.id("conversation_sessions"),
            shown=lambda a: a.ids("messages"),
        ),
        _tool("about", user_id=lambda a: a.name("users", "user_id"), chat_id=lambda _: SHARED_CHAT),
        _tool("about", user_id=lambda a: a.name("users", "user_id")),
        _tool("chats", after=lambda a: a.text),
        _tool(
            "remember",
            scope=lambda _: "user",
            user_id=lambda a: a.name("users", "user_id"),
            content=lambda a: a.text,
            learned_in=lambda a: a.chat_id,
        ),
        _tool("correct", memory_id=lambda a: a.number("memories"), content=lambda a: a.text),
        _tool("forget", memory_id=lambda a: a.number("memories")),
        _tool("tools/list"),
        lambda _: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    ],
    ("post", "/v1/keys"): [lambda a: {"label": a.text, "scopes": ["read"], "chats": [a.chat_id]}],
    ("post", "/v1/keys/{key_id}/rotate"): [lambda _: {}],
}


def routes(client: httpx.Client) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """`(method, path, its parameters as (place, name))` of all that the API describes."""
    found = []
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in METHODS:
            if method in methods:
                parameters = methods[method].get("parameters", [])
                found.append((method, path, [(each["in"], each["name"]) for each in parameters]))
    return found


def test_no_route_tells_or_changes_what_is_another_tenant_s(stage: Stage, client: httpx.Client) -> None:
    for method, path, names in routes(client):
        for theme in THEMES:
            for answer in attacks(client, Caller(stage, theme), method, path, names):
                told = f"{method} {path} with {theme.name}: {answer.status_code}"
                assert SECRET not in answer.text, told
                # what is refused is refused with its reason, and nothing is a defect
                assert answer.status_code < 500, told + answer.text
        stage.unharmed(f"{method} {path}")


def attacks(
    client: httpx.Client, a: Caller, method: str, path: str, names: list[tuple[str, str]]
) -> Iterator[httpx.Response]:
    for called in calls(a, method, path, names):
        yield called.by(client)


@dataclass
class Call:
    method: str
    url: str
    query: dict[str, str]
    body: dict[str, Any] | None

    def by(self, client: httpx.Client) -> httpx.Response:
        if self.body is None:
            # as text: httpx would write bytes as Python does
            sent = {name: value.encode(errors="replace").decode() for name, value in self.query.items()}
            return client.request(self.method, self.url, params=sent)
        content, headers = json.dumps(self.body).encode(), {"Content-Type": "application/json"}
        return client.request(self.method, self.url, content=content, headers=headers)


def calls(a: Caller, method: str, path: str, names: list[tuple[str, str]]) -> Iterator[Call]:
    """All that is sent to a route under one theme."""
    url = path
    asked = [{name: IN_QUERY[name](a)[:2000]} for place, name in names if place == "query"]
    for name in (name for place, name in names if place == "path"):
        # a longer path is refused by the server itself; a lone surrogate is no text that can be in one
        value = IN_PATH[name](a).encode(errors="replace")[:2000]
        url = url.replace(f"{{{name}}}", quote(value, safe="") or "-")
    bodies = BODIES.get((method, path))
    if bodies is None:
        assert method in ("get", "delete"), f"say what a hostile body of {method} {path} is"
    for query in [{}, *asked] if bodies is None else []:
        yield Call(method, url, query, None)
    for body in bodies or []:
        yield Call(method, url, {}, body(a))


def test_without_a_key_only_the_health_of_the_api_is_told(stage: Stage, client: httpx.Client) -> None:
    made = Caller(stage, Theme("without a key"))
    with httpx.Client(base_url=client.base_url, timeout=30) as stranger:
        for method, path, names in routes(client):
            answers = list(attacks(stranger, made, method, path, names))
            # a source's URL wants the platform's proof, and those of others are not told apart from none
            wanted = (
                {200} if path in {"/healthz", "/readyz"} else {401, 404} if "source_id" in path else {401}
            )
            assert {answer.status_code for answer in answers} <= wanted, path
