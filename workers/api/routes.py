"""Routes whose ids may hold slashes: sent as `%2F` a slash belongs to its id, sent as it is it parts two ids."""

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

# A code point that is no character, and so in nobody's id: it stands for the slash while the path is taken apart.
_SLASH = "\ufdd0"


class IdRoute(APIRoute):
    """Takes the path apart before `%2F` is decoded, which servers do too early."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the route is meant, and its ids, decoded."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" not in raw.lower():
            return super().matches(scope)
        apart = raw.decode("ascii", "replace").replace("%2F", _SLASH).replace("%2f", _SLASH)
        match, found = super().matches({**scope, "path": unquote(apart)})
        if match is not Match.NONE:
            ids: MutableMapping[str, Any] = found.get("path_params", {})
            found["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in ids.items()
            }
        return match, found
