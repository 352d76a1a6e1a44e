"""Client of a running Backscroll's HTTP API; it raises the errors that the same call raises in process."""

import contextlib
import http.client
import importlib.metadata
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from schemas.errors import ApiFailed, ApiUnavailable, Conflict, InvalidInput, NotFound, SettingsError
from schemas.listing import ChatList, ChatSummary
from schemas.payloads import ChatAddress, parse_payload
from schemas.server_urls import is_local

T = TypeVar("T", bound=BaseModel)

# An API that has just started may be loading its model.
TIMEOUT_SECONDS = 60.0
# The API's detail for an unknown path, as opposed to an unknown id.
NO_SUCH_PATH = "Not Found"
CHATS_NAMED = 5
"""Where one of several must be chosen."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """The HTTP API at a URL, with its key."""

    url: str
    api_key: str
    # what to do when it does not answer
    advice: str = "Check whether it runs."

    def get(self, path: str, answer: type[T], **query: object) -> T:
        """Get a path, as this model. Raises as `post` does."""
        parameters = f"?{urlencode(query)}" if query else ""
        return self._understood(answer, self._call(urllib.request.Request(self._at(path) + parameters)))  # noqa: S310

    def post(self, path: str, query: BaseModel, answer: type[T]) -> T:
        """Post a query; returns the answer as this model.

        Raises `ApiUnavailable`, `ApiFailed`, `InvalidInput`, `NotFound`, and `SettingsError` for a key that is
        refused and for an API of another version.
        """
        body = query.model_dump_json(exclude_unset=True).encode()
        request = urllib.request.Request(self._at(path), body, {"Content-Type": "application/json"})  # noqa: S310
        return self._understood(answer, self._call(request))

    def delete(self, path: str, answer: type[T]) -> T:
        """Delete a path; return the answer as this model. Raises as `post` does."""
        return self._understood(answer, self._call(urllib.request.Request(self._at(path), method="DELETE")))  # noqa: S310

    def find_chat(self, chat_id: str | None) -> ChatSummary:
        """Find the chat of this id; without one, the only chat there is. Raises `NotFound` and `InvalidInput`."""
        if chat_id is None:
            page = self.get("/v1/chats", ChatList, limit=CHATS_NAMED)
            if not page.total:
                raise NotFound(
                    "there is no chat yet: bring one in with `backscroll import`, or send messages"
                )
            if page.total > 1:
                some = ", ".join(chat.chat_id for chat in page.chats) + " …" * (page.total > CHATS_NAMED)
                raise InvalidInput(
                    f"there are {page.total} chats, say which one: --chat ID ({some})", field="chat"
                )
            return page.chats[0]
        address = parse_payload(ChatAddress, {"chat_id": chat_id})
        return self.get(f"/v1/chats/{quoted(address.chat_id)}", ChatSummary)

    def _at(self, path: str) -> str:
        return self.url.rstrip("/") + path

    def _call(self, request: urllib.request.Request) -> bytes:
        request.add_unredirected_header("Authorization", f"Bearer {self.api_key}")
        try:
            with self._opener().open(request, timeout=TIMEOUT_SECONDS) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read()) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ApiUnavailable(
                f"The Backscroll at {self.url} does not answer ({reason}). {self.advice}"
            ) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        # no proxy for servers on this machine, whatever the environment says
        proxies = urllib.request.ProxyHandler({}) if is_local(self.url) else urllib.request.ProxyHandler()
        return urllib.request.build_opener(proxies)

    def _refusal(self, status: int, body: bytes) -> Exception:
        """Return the error for an unsuccessful answer."""
        problem: dict[str, Any] = {}
        with contextlib.suppress(ValueError, TypeError):
            problem = dict(json.loads(body))
        detail = str(problem.get("detail") or f"it answers {status}")
        match status:
            case 401 | 403:
                return SettingsError(
                    f"The Backscroll at {self.url} refuses the API key ({detail}). Set BACKSCROLL_API_KEY to its "
                    "key."
                )
            case 404 | 405 if detail == NO_SUCH_PATH or "type" not in problem:
                return self._other_version()
            case 404:
                return NotFound(detail)
            case 400 | 408 | 413 | 422:
                return InvalidInput(detail, field=str(problem.get("field") or ""))
            case 409:
                return Conflict(detail)
            case 429 | 502 | 503 | 504:
                return ApiUnavailable(f"The Backscroll at {self.url} cannot answer now: {detail}")
        request_id = problem.get("request_id", "")
        return ApiFailed(f"The Backscroll at {self.url} answers {status}: {detail} {request_id}".rstrip())

    def _understood(self, answer: type[T], body: bytes) -> T:
        try:
            return answer.model_validate_json(body)
        except ValidationError:
            raise self._other_version() from None

    def _other_version(self) -> SettingsError:
        """Return the error for an answer unknown to this version."""
        version = importlib.metadata.version("backscroll")
        try:
            with self._opener().open(self._at("/openapi.json"), timeout=TIMEOUT_SECONDS) as response:
                answering = f"version {json.load(response)['info']['version']}"
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            answering = "an unknown version, or no Backscroll at all"
        return SettingsError(
            f"What answers at {self.url} is {answering}, which this command (version {version}) does not understand. "
            "Restart it with the same version, or correct BACKSCROLL_URL."
        )


def quoted(name: str) -> str:
    """Quote an id as one part of a path."""
    return quote(name, safe="")
