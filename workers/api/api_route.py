"""Routes with the features of all endpoints: retries, ids with slashes, descriptions of bodies and problems."""

import functools
import inspect
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.routing import Match
from starlette.types import Scope

from pipeline.store.connections.transactions import persistently
from workers.api.admission import admit, take_messages
from workers.api.bodies import BodyReader
from workers.api.openapi import SECURED, body_of, scoped
from workers.api.problems import responses as described
from workers.api.scopes import access_of
from workers.api.state import Api, ByCaller, Tenant

# A noncharacter, which no id contains: it replaces an escaped slash while the path is matched.
_SLASH = "\ufdd0"
_DECODED = "backscroll.path"
"""The path with it, decoded once for all routes, in the ASGI scope."""


class ApiRoute(APIRoute):
    """Runs a plain endpoint again after Postgres aborted its transaction to end a deadlock.

    A slash sent as `%2F` belongs to an id, a plain one separates two ids: the path is matched before `%2F` is decoded,
    which servers do too early. This also describes the endpoint's body, the problems that its parameters may cause,
    and its scope by `scopes`: a route missing there cannot be built.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: dict[int | str, dict[str, Any]] | None = None,
        openapi_extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        (self.access,) = {access_of(method, path) for method in options.get("methods") or ["GET"]}
        statuses = set() if self.access.is_open else {401, 403, 429, 503}
        reader = None
        for annotation in (
            parameter.annotation for parameter in inspect.signature(endpoint).parameters.values()
        ):
            if body_reader := _reader(annotation):
                statuses |= {408, 413, 422}
                reader = body_reader
            elif annotation not in (Api, Tenant, ByCaller):
                statuses |= {422}
        if reader is not None:
            openapi_extra = body_of(reader.model)
        elif self.access.chat == "body" and not isinstance(self, DirectRoute):
            raise LookupError(f"{path} takes no Body that could name a chat, as ACCESS says")
        if "{" in path:
            # an id that no path can contain, such as one of dots, names nothing
            statuses |= {404}
        if not self.access.is_open:
            openapi_extra = (openapi_extra or {}) | SECURED
            options["description"] = scoped(
                options.get("description") or inspect.getdoc(endpoint), self.access
            )
        known = described(*sorted(statuses)) if statuses - {422} else {}
        super().__init__(
            path,
            _retried(endpoint),
            responses=known | (responses or {}),
            openapi_extra=openapi_extra,
            **options,
        )

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that admits a request before it reads the body, and then answers it."""
        handler = self.get_inner_handler()
        if self.access.is_open:
            return handler

        async def admitted(request: Request) -> Response:
            caller = request.state.caller = await admit(request, self.access)
            if self.access.counts and caller.key.messages_per_day is not None:
                database = request.app.state.api.database
                await run_in_threadpool(take_messages, database, caller.key, 1)
            return await handler(request)

        return admitted

    def get_inner_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of admitted requests."""
        return super().get_route_handler()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the route and decode its ids."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" not in raw.lower():
            return super().matches(scope)
        if _DECODED not in scope:
            escaped = raw.decode("ascii", "replace").replace("%2F", _SLASH).replace("%2f", _SLASH)
            scope[_DECODED] = unquote(escaped)
        match, child_scope = super().matches({**scope, "path": scope[_DECODED]})
        if match is not Match.NONE:
            ids: MutableMapping[str, Any] = child_scope.get("path_params", {})
            child_scope["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in ids.items()
            }
        return match, child_scope


def _reader(annotation: Any) -> BodyReader | None:
    for marker in getattr(annotation, "__metadata__", ()):
        if isinstance(marker, Depends) and isinstance(marker.dependency, BodyReader):
            return marker.dependency
    return None


def _retried(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(endpoint):
        return endpoint

    @functools.wraps(endpoint)
    def retried(*args: Any, **kwargs: Any) -> Any:
        return persistently(lambda: endpoint(*args, **kwargs))

    return retried


class DirectRoute(ApiRoute):
    """A route whose endpoint takes the request and the ids of its path, and returns the response.

    If its body names the chat, the endpoint calls `Caller.require_chats`.
    """

    def get_inner_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that calls the endpoint without dependencies."""

        async def answer(request: Request) -> Response:
            response: Response = await self.endpoint(request, **request.path_params)
            return response

        return answer
