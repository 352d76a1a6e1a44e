"""The HTTP API with the hostile tenant's key: every route that it describes, with the ids of another and with SQL."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.conftest import served
from tests.hostile.caller import THEMES, Caller, Theme
from tests.hostile.conftest import Stage
from tests.hostile.victims import SECRET

# It goes over the wire as JSON: a lone surrogate as its escape.
METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[httpx.Client]:
    """With the key of the hostile tenant."""
    with served(stage.settings) as client:
        yield client


# What goes into a path and behind the question mark, by its name in the description, and bodies by their routes.
CALLS = json.loads(Path(__file__).with_name("calls.json").read_text("utf-8"))


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
    asked = [{name: a.fill(CALLS["query"][name])[:2000]} for place, name in names if place == "query"]
    for name in (name for place, name in names if place == "path"):
        # a longer path is refused by the server itself; a lone surrogate is no text that can be in one
        value = a.fill(CALLS["path"][name]).encode(errors="replace")[:2000]
        url = url.replace(f"{{{name}}}", quote(value, safe="") or "-")
    bodies = CALLS["bodies"].get(f"{method} {path}")
    if bodies is None:
        assert method in ("get", "delete"), f"say what a hostile body of {method} {path} is"
    for query in [{}, *asked] if bodies is None else []:
        yield Call(method, url, query, None)
    for body in bodies or []:
        yield Call(method, url, {}, a.fill(body))


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
