"""The hostile caller: what it knows of another tenant, and says, under one theme."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.hostile.conftest import Stage
from tests.hostile.victims import VICTIM

SQL = ("' OR tenant_id <> ''; DROP TABLE messages; --", VICTIM, "_%\\\x00\ud800")


@dataclass(frozen=True)
class Theme:
    """One way to be hostile: with the victim's ids, with nothing, or with a text in every place for a text."""

    name: str
    text: str | None = None
    empty: bool = False


THEMES = (
    Theme("ids of others"),
    Theme("nothing", text="", empty=True),
    *(Theme(f"the text {text[:30]!r}", text=text) for text in SQL),
)


class Caller:
    """Whoever makes one call under one theme."""

    def __init__(self, stage: Stage, theme: Theme) -> None:
        self.theme, self.known = theme, stage.known

    def name(self, table: str, column: str) -> Any:
        """A text for what is called by a name: the victim's, or that of the theme."""
        return self.known.one(table, column) if self.theme.text is None else self.theme.text

    def names(self, table: str, column: str) -> list[Any]:
        if self.theme.empty:
            return []
        return self.known.all(table, column) if self.theme.text is None else [self.theme.text]

    def maybe(self, table: str, column: str) -> Any:
        """One that may be left out, which asks for everything or for nothing."""
        return None if self.theme.empty else self.name(table, column)

    def ids(self, table: str) -> list[Any]:
        """The victim's numbers, whatever the texts are."""
        return [] if self.theme.empty else self.known.all(table, "id")

    def id(self, table: str) -> int:
        return int(self.known.one(table, "id"))

    def number(self, table: str) -> str:
        """A number as a path holds it: the victim's, or the text of the theme."""
        return str(self.id(table)) if self.theme.text is None else self.theme.text

    def word(self, valid: str) -> str:
        """What has to be one of a few words: this one, or the text of the theme."""
        return valid if self.theme.text is None else self.theme.text

    def fill(self, value: Any) -> Any:
        """What `calls.json` says is sent: `$` begins what is the victim's, or the theme's."""
        match value:
            case dict():
                return {self.fill(name): self.fill(inner) for name, inner in value.items()}
            case list():
                return [self.fill(each) for each in value]
            case "$chat":
                return self.chat_id
            case str() if value.startswith("$text"):
                _, _, most = value.partition(":")
                return self.text[: int(most) if most else None]
            case str() if value.startswith("$"):
                what, _, of = value[1:].partition(":")
                given = of.split(".") if what in {"name", "names", "maybe"} else [of]
                return getattr(self, what)(*given)
        return value

    @property
    def text(self) -> str:
        return self.word("lighthouse")

    @property
    def chat_id(self) -> str:
        return self.word(f"{VICTIM}:alone")


METHODS = ("get", "post", "put", "patch", "delete")
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
        # as JSON, a lone surrogate as its escape
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
