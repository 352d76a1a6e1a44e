"""Routes with what all endpoints share: retries, ids with slashes, and the description of bodies and problems."""

import functools
import inspect
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from pipeline.store.transactions import persistently
from workers.api.bodies import BodyReader
from workers.api.errors import responses as described
from workers.api.openapi import body_of
from workers.api.state import Api, Tenant

# A noncharacter, which no id contains: it replaces an escaped slash while the path is matched.
_SLASH = "\ufdd0"


class ApiRoute(APIRoute):
    """Runs a plain endpoint again when Postgres chose its transaction to end a deadlock.

    A slash sent as `%2F` belongs to an id, a plain one separates two ids: the path is matched before `%2F` is decoded,
    which servers do too early. The body of the endpoint, and the problems that follow from its parameters, are
    described here.
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
        parameters = inspect.signature(endpoint).parameters.values()
        statuses: set[int] = set()
        for annotation in (parameter.annotation for parameter in parameters):
            if annotation == Tenant:
                statuses |= {401, 503}
            elif (reader := _reader(annotation)) is not None:
                statuses |= {408, 413, 422}
                openapi_extra = body_of(reader.model)
            elif annotation != Api:
                statuses |= {422}
        if "{" in path:
            # an id that no path can have, such as one of dots, names nothing
            statuses |= {404}
        known = described(*sorted(statuses)) if 401 in statuses else {}
        super().__init__(
            path,
            _retried(endpoint),
            responses=known | (responses or {}),
            openapi_extra=openapi_extra,
            **options,
        )

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the route and decode its ids."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" not in raw.lower():
            return super().matches(scope)
        escaped = raw.decode("ascii", "replace").replace("%2F", _SLASH).replace("%2f", _SLASH)
        match, found = super().matches({**scope, "path": unquote(escaped)})
        if match is not Match.NONE:
            ids: MutableMapping[str, Any] = found.get("path_params", {})
            found["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in ids.items()
            }
        return match, found


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
    """A route whose endpoint takes the request and returns the response, without dependencies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself."""
        return self.endpoint
