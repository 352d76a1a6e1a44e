"""Call the HTTP API for a tool, with the caller's key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from schemas.base import did_you_mean
from schemas.errors import BackscrollError, InvalidInput
from workers.mcp.tools import TOOLS


class Refused(BackscrollError):
    """The HTTP API did not do what a tool asked for; the message is its sentence."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The HTTP API for one caller; without headers, with the client's own key."""

    client: httpx2.AsyncClient
    headers: Mapping[str, str]

    async def call(self, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool's route. Raises `Refused`, and `InvalidInput` for a wrong tool or argument."""
        if name not in TOOLS:
            raise InvalidInput(f"there is no tool {name}, {did_you_mean(name, TOOLS)}".rstrip(", "))
        if name == "about" and args.get("user_id") and args.get("chat_id"):
            args = {**args, "user_id": await self._user_called(args["user_id"], args["chat_id"])}
        return await self.ask(TOOLS[name].route, args)

    async def ask(self, route: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a route to these parameters or fields, without nulls. Raises as `call`."""
        method, path = route.split(" ")
        rest = {name: value for name, value in args.items() if value is not None}
        for name in re.findall(r"{(\w+)}", path):
            if name not in rest:
                raise InvalidInput(f"{name} is missing")
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        place: Any = {"json": rest} if method == "POST" else {"params": rest}
        try:
            response = await self.client.request(method, path, headers=dict(self.headers), **place)
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            raise Refused(f"The Backscroll at {self.client.base_url} does not answer ({reason}).") from None
        except (ValueError, httpx2.InvalidURL) as error:
            raise InvalidInput(f"the arguments cannot be sent: {error}") from None
        is_json = "json" in response.headers.get("Content-Type", "")
        answer: dict[str, Any] = response.json() if is_json else {}
        if not response.is_success or not is_json:
            other = f"{self.client.base_url} answers {response.status_code}, not as Backscroll does."
            raise Refused(str(answer.get("detail") or other))
        return answer

    async def _user_called(self, name: object, chat_id: str) -> object:
        """Return the id of the chat's member of this name, or else the name, which may be an id."""
        names = (await self.ask("GET /v1/chats/{chat_id}/members", {"chat_id": chat_id}))["names"]
        wanted = str(name).casefold()
        called = [user_id for user_id, known in names.items() if wanted in map(str.casefold, known)]
        if len(called) > 1:
            raise Refused(f"Several are called {name}: say which one by id ({', '.join(called)}).")
        return called[0] if called else name
