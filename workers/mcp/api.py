"""The HTTP API as a tool calls it, with the key of whoever calls the tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from pydantic import BaseModel

from schemas.errors import BackscrollError
from schemas.keys import CurrentKey

T = TypeVar("T", bound=BaseModel)


class Refused(BackscrollError):
    """The HTTP API did not do what a tool asked for; the message is its sentence."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Api:
    """The HTTP API for one caller."""

    client: httpx2.AsyncClient
    headers: Mapping[str, str]

    async def call(
        self, answer: type[T], method: str, path: str, given: Mapping[str, Any] | None = None
    ) -> T:
        """Call a route, with what is given as its parameters or body; nulls are left out. Raises `Refused`."""
        sent = {name: value for name, value in (given or {}).items() if value is not None}
        place: Any = {"params": sent} if method == "GET" else {"json": sent} if given is not None else {}
        try:
            response = await self.client.request(method, path, headers=dict(self.headers), **place)
            if response.is_success:
                return answer.model_validate_json(response.content)
            problem = response.json()
        except httpx2.TransportError as error:
            raise Refused(
                f"The Backscroll at {self.client.base_url} does not answer ({error or type(error).__name__})."
            ) from None
        except ValueError:
            raise Refused(f"Backscroll answers {response.status_code} with what is not understood.") from None
        detail = problem.get("detail") if isinstance(problem, dict) else None
        raise Refused(str(detail or f"Backscroll answers {response.status_code}."), response.status_code)

    async def key(self) -> CurrentKey:
        """Return what the caller's key may do. Raises `Refused`."""
        return await self.call(CurrentKey, "GET", "/v1/keys/current")

    async def chat(self, given: str | None) -> str | None:
        """Return the chat that is meant: the given one, or the only one of the key. Raises `Refused`."""
        if given is not None:
            return given
        chats = (await self.key()).chats
        return chats[0] if chats is not None and len(chats) == 1 else None
